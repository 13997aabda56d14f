package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"sorted keys, no space", ` { "b" : 1 , "a" : [ 1 , 2 ] } `, `{"a":[1,2],"b":1}`},
		{"nested", `{"z":{"y":1,"x":{}},"a":null}`, `{"a":null,"z":{"x":{},"y":1}}`},
		{"numbers are one value", `[25,25.0,2.5e1,250e-1]`, `[25,25,25,25]`},
		{"negative zero", `[-0,-0.0]`, `[0,0]`},
		{"exponents as ECMAScript", `[1e21,1e-7,0.000001,123456789012345680000]`, `[1e+21,1e-7,0.000001,123456789012345680000]`},
		{"exact integers beyond 2^53", `[9007199254740993,-9223372036854775808]`, `[9007199254740993,-9223372036854775808]`},
		{"escapes", `"\u003c\/\u0001\t\"\\\u00e9"`, `"</\u0001\t\"\\é"`},
		{"utf-16 key order", `{"\ud83d\ude00":1,"\ufb33":2,"é":3}`, "{\"é\":3,\"\U0001f600\":1,\"\ufb33\":2}"},
		{"literals", `[true,false,null]`, `[true,false,null]`},
		{"empty", `{}`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := CanonicalJSON([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, string(got)); d != "" {
				t.Errorf("canonical form (-want +got):\n%s", d)
			}
		})
	}
}

func TestCanonicalJSONRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{``, "canonical JSON"},
		{`{`, "unexpected end"},
		{`{"a":1,"a":2}`, `key "a" twice`},
		{`{"b":1,"a":1,"\u0061":2}`, `key "a" twice`},
		{`1e400`, "out of range"},
		{`1 2`, "canonical JSON"},
		{`NaN`, "canonical JSON"},
	} {
		_, err := CanonicalJSON([]byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("CanonicalJSON(%q) = %v, want an error with %q", tt.in, err, tt.want)
		}
	}
}

// jsonValue draws any JSON value.
func jsonValue() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return drawValue(t, 3) })
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.Float64().Draw(t, "float")
	case 4:
		return rapid.String().Draw(t, "string")
	case 5:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "len") {
			out = append(out, drawValue(t, depth-1))
		}
		return out
	default:
		out := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "size") {
			out[rapid.String().Draw(t, "key")] = drawValue(t, depth-1)
		}
		return out
	}
}

func TestCanonicalIsIdempotentAndKeepsTheValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue().Draw(t, "value")
		first, err := Canonical(v)
		if err != nil {
			t.Fatal(err)
		}
		second, err := CanonicalJSON(first)
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(second) {
			t.Fatalf("not idempotent:\n%s\n%s", first, second)
		}
		indented, err := json.MarshalIndent(v, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		third, err := CanonicalJSON(indented)
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(third) {
			t.Fatalf("white space or escapes changed the form:\n%s\n%s", first, third)
		}
		var a, b any
		if err := json.Unmarshal(indented, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(first, &b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("another value (-want +got):\n%s", d)
		}
	})
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.0,"\u2028"]}`, `"\ud800"`, `[1e-400]`, "{\"\xff\":1}", `{"":{"":[]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := CanonicalJSON(in)
		if err != nil {
			return
		}
		again, err := CanonicalJSON(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q -> %q -> %q, %v", in, out, again, err)
		}
	})
}

func BenchmarkCanonicalJSON(b *testing.B) {
	doc := []byte(`{"id":"op_31","kind":"model_reply","at_us":8120000,"reply":{"text":{"digest":"aa","len":12,"media":"text/plain"},"finish":"stop","usage":{"input":812,"output":40},"charged":9120},"money":{"limit":80000,"charged":9120,"held":21000,"unknown":0}}`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := CanonicalJSON(doc); err != nil {
			b.Fatal(err)
		}
	}
}
