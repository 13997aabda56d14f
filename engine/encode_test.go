package engine

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The types below have all that structs of this module use, and what they do
// not.
type (
	inner struct {
		B string `json:"b"`
		A int    `json:"a,omitempty"`
		Z any
	}
	Embedded struct {
		Name string  `json:"name"`
		Call *inner  `json:"call,omitempty"`
		X    float64 `json:"x"`
	}
	outer struct {
		Embedded
		Call    *outer `json:"call,omitempty"` // hides the embedded one
		Texts   []Text `json:"texts"`
		T       Text   `json:"t"`
		P       *Text
		Raw     []byte             `json:"raw,omitempty"`
		Arr     [2]inner           `json:"arr"`
		M       map[string]inner   `json:"m"`
		MP      map[string]*inner  `json:"mp,omitempty"`
		MF      map[string]float64 `json:"ünicode"`
		U       uint64             `json:"u,omitempty"`
		F       float64            `json:"f,omitempty"`
		B       bool               `json:"b,omitempty"`
		I       any                `json:"i,omitempty"`
		S       inner              `json:"s,omitempty"`
		Skip    int                `json:"-"`
		hidden  int
		Kind    EventKind `json:"kind,omitempty"`
		Pointed *int64    `json:"pointed"`
		N       json.Number
	}
	odd struct { // left to encoding/json
		Q int `json:"q,string"`
		inner
		Self map[int]string
		F32  float32
		Zero int `json:"zero,omitzero"`
	}
)

// slowly is what Canonical gave before it knew types.
func slowly(v any) ([]byte, error) { return appendMarshalled(nil, v) }

func sameForm(t interface {
	Helper()
	Fatalf(string, ...any)
}, v any,
) {
	t.Helper()
	want, werr := slowly(v)
	got, gerr := Canonical(v)
	if (werr == nil) != (gerr == nil) || werr != nil && werr.Error() != gerr.Error() {
		t.Fatalf("%#v: error %v, encoding/json says %v", v, gerr, werr)
	}
	if string(want) != string(got) {
		t.Fatalf("%#v:\ngot  %s\nwant %s", v, got, want)
	}
}

// Canonical writes what encoding/json makes of a value, sorted and rewritten,
// byte for byte, for every type that rows, operations and traces hold.
func TestCanonicalIsTheSortedFormOfEncodingJSON(t *testing.T) {
	t.Parallel()
	number := rapid.Custom(func(t *rapid.T) json.Number {
		return json.Number(rapid.SampledFrom([]string{"", "0", "-1.50", "1e3", "x"}).Draw(t, "number"))
	})
	val := rapid.Custom(func(t *rapid.T) inner {
		return inner{rapid.String().Draw(t, "b"), rapid.Int().Draw(t, "a"), drawValue(t, 2)}
	})
	wide := rapid.Custom(func(t *rapid.T) outer {
		o := outer{
			Embedded: Embedded{Name: drawBytes(t), X: rapid.Float64().Draw(t, "x")},
			Texts:    rapid.SliceOf(rapid.Make[Text]()).Draw(t, "texts"), T: rapid.Make[Text]().Draw(t, "t"),
			P: rapid.Ptr(rapid.Make[Text](), true).Draw(t, "p"), Raw: rapid.SliceOf(rapid.Byte()).Draw(t, "raw"),
			M: rapid.MapOf(rapid.String(), val).Draw(t, "m"), MP: rapid.MapOf(rapid.String(), rapid.Ptr(val, true)).Draw(t, "mp"),
			MF: rapid.MapOf(rapid.StringN(0, 3, -1), rapid.Float64()).Draw(t, "mf"), U: rapid.Uint64().Draw(t, "u"),
			F: rapid.Float64().Draw(t, "f"), B: rapid.Bool().Draw(t, "b"), I: drawValue(t, 2), S: val.Draw(t, "s"), Skip: 1, hidden: 1,
			Kind: EventKind(drawBytes(t)), Pointed: rapid.Ptr(rapid.Int64(), true).Draw(t, "pointed"), N: number.Draw(t, "n"),
		}
		o.Arr[0] = val.Draw(t, "arr")
		if rapid.Bool().Draw(t, "nested") {
			o.Call = &outer{I: &o.Arr, M: o.M}
		}
		return o
	})
	rapid.Check(t, func(t *rapid.T) {
		o := wide.Draw(t, "outer")
		sameForm(t, o)
		sameForm(t, &o)
		sameForm(t, []*outer{&o, nil})
		sameForm(t, map[string]any{"b": o.Arr, "a": &o, drawBytes(t): o.T, "": nil})
		sameForm(t, odd{Q: o.Arr[0].A, inner: o.S, Self: map[int]string{2: "b", 10: "a"}, F32: float32(o.F)})
		ev := rapid.Make[Event]().Draw(t, "event")
		sameForm(t, ev)
		sameForm(t, &ev)
		sameForm(t, rapid.Make[Command]().Draw(t, "command"))
		sameForm(t, rapid.Make[Usage]().Draw(t, "usage"))
		sameForm(t, rapid.Make[EffectRecord]().Draw(t, "effect"))
	})
}

// drawBytes draws a string that need not be UTF-8.
func drawBytes(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.SampledFrom([]byte("a\"\\\n\x00\x1f\x7f\xff\xc3\xa9\xe2\x80\xa8<")), 0, 8).Draw(t, "bytes"))
}

type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errors.New("no form") }

type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { return []byte(`{"a":1,}`), nil }

type pointed struct{ N int }

func (p *pointed) MarshalJSON() ([]byte, error) { return []byte(`{ "b": 1, "a": 2.50 }`), nil }

func TestCanonicalOfEdges(t *testing.T) {
	t.Parallel()
	type list []list
	type chain struct {
		Next *chain `json:"next,omitempty"`
	}
	cycle := &chain{}
	cycle.Next = cycle
	deep := &chain{}
	for range 2 * maxDepth {
		deep = &chain{deep}
	}
	var none *pointed
	for _, v := range []any{
		nil, true, 1, int8(-3), uint64(math.MaxUint64), uint64(math.MaxInt64), math.Copysign(0, -1), 1e300, 5e-324, 1e21, 1e20, 123456789012345678.0,
		float32(0.1), math.NaN(), math.Inf(1), "", "\xff\u2028<&>\u007f", []byte(nil),
		[]byte{},
		[]string(nil),
		[]string{},
		map[string]int(nil),
		map[string]int{},
		json.RawMessage(nil), json.RawMessage(` {"b":[1.0], "a":"\u00e9"} `), json.RawMessage(`{`), json.RawMessage(`{"a":1,"a":2}`), json.Number("1.0"),
		list{{}, nil, {list{}}},
		cycle, deep,
		failing{},
		&failing{},
		broken{},
		[]any{failing{}},
		none, &pointed{},
		pointed{3},
		[]pointed{{}},
		map[string]pointed{"x": {}},
		map[string]any{"\xff": 1, "\xfe": 2},
		map[string]any{"\xff": 1},
		make(chan int), func() {},
		[3]byte{1, 2, 3},
		struct{}{},
		struct{ A, b int }{1, 2},
		map[int]string{10: "a", 9: "b"},
		complex(1, 2), error(nil), any(json.Marshaler(nil)),
		[0]int{},
		&[]int{1},
	} {
		sameForm(t, v)
	}
}

// What is kept between documents never shows in a later one.
func TestCanonicalReturnsItsOwnBytes(t *testing.T) {
	t.Parallel()
	first, err := Canonical(map[string]string{"a": strings.Repeat("x", 100)})
	if err != nil {
		t.Fatal(err)
	}
	was := string(first)
	if _, err := Canonical(map[string]string{"a": strings.Repeat("y", 100)}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(was, string(first)); d != "" {
		t.Errorf("a later document has changed an earlier one:\n%s", d)
	}
}

func BenchmarkCanonical(b *testing.B) {
	ev := Event{
		ID: "ev/op_31", Kind: EvModelReply, AtUS: 8_120_000, Op: "op_31", Key: &OpKey{Kind: OpAgent, Cause: "m1", Ordinal: 3},
		Reply: &ModelReply{
			Text: Text{Blob: Blob{Digest: strings.Repeat("a", 64), Len: 812, Media: MediaText}}, Finish: "stop",
			Usage: &Usage{Input: 812, Output: 40}, Charged: 9120, Source: "actual",
		},
		Money: Money{Limit: 80_000, Charged: 9_120, Held: 21_000},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical(&ev); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalThroughEncodingJSON(b *testing.B) {
	ev := Event{ID: "ev/op_31", Kind: EvModelReply, AtUS: 8_120_000, Reply: &ModelReply{Usage: &Usage{Input: 812}}, Money: Money{Limit: 80_000}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := slowly(&ev); err != nil {
			b.Fatal(err)
		}
	}
}
