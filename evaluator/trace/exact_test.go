package trace

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A key that stands twice, or differs from a known one by case only, would
// quietly decide a figure: the decoder takes the last of them.
func TestTauBench_AmbiguousKeysAreRefused(t *testing.T) {
	t.Parallel()
	head := `[{"task_id":1,"trial":0,"reward":1`
	for in, want := range map[string]string{
		head + `,"reward":0,"traj":[]}]`:                                                      `record 1: the key "reward" stands twice in one object`,
		head + `,"rew\u0061rd":0,"traj":[]}]`:                                                 `record 1: the key "reward" stands twice in one object`,
		head + `,"REWARD":0,"traj":[]}]`:                                                      `record 1: the key "REWARD" differs from "reward" by case only`,
		head + `,"traj":[],"info":{"Error":"x"}}]`:                                            `record 1: the key "Error" differs from "error" by case only`,
		head + `,"traj":[{"role":"user","content":"a","content":"b"}]}]`:                      `record 1: the key "content" stands twice in one object`,
		head + `,"traj":[{"role":"a","tool_calls":[{"function":{"name":"f","NAME":"g"}}]}]}]`: `record 1: the key "NAME" differs from "name" by case only`,
		head + `,"traj":null}]`:                                                               "record 1: no traj",
		head + "}]":                                                                           "unrecognised format (known: tau-bench)",
		"[" + rec("1", "0", "1") + `,{"task_id":2,"trial":0,"reward":1}]`:                     "record 2: no traj",
		"[{\"task_id\":\"\xff\"}]":                                                            "no UTF-8 text: an invalid byte at byte offset 13",
	} {
		_, err := Import("f", []byte(in), FormatAuto)
		if err == nil || err.Error() != "f: "+want {
			t.Errorf("%s\n got %v\nwant f: %s", in, err, want)
		}
	}
	// Keys that the format does not know may stand in any case and number.
	f, err := Import("f", []byte(head+`,"traj":[],"X":1,"X":2,"x":{"reward":9,"Reward":[{}]},"info":{"task":{"instruction":"i","USER":1}}}]`), FormatAuto)
	if err != nil || f.Records[0].Reward != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestImport_ByteOrderMarkIsPassedOver(t *testing.T) {
	t.Parallel()
	text := "[" + rec("1", "0", "1") + "]"
	f, err := Import("f", []byte("\ufeff"+text), FormatAuto)
	if err != nil || len(f.Records) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if plain, err := Import("f", []byte(text), FormatAuto); err != nil || plain.SHA256 == f.SHA256 {
		t.Errorf("%v: the digest is of other bytes than the file's", err)
	}
	if _, err := Import("f", []byte("\ufeff"+text+"x"), FormatAuto); err == nil || !strings.HasSuffix(err.Error(), "at byte offset 59") {
		t.Errorf("offset of a fault behind the mark: %v", err)
	}
}

// The walker passes over any JSON value without a fault of its own and ends
// where the value ends.
func TestExactKeys_WalksAnyValue(t *testing.T) {
	t.Parallel()
	keys := shapeOf(reflect.TypeFor[tauRecord]())
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(
			rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.StringMatching(`[\\"{}\[\],:é ]{0,8}`), func(s string) any { return s }),
		)
		if depth == 0 {
			return leaf
		}
		name := rapid.SampledFrom([]string{"task_id", "traj", "info", "task", "actions", "role", "tool_calls", "function", "other", "}\"", ""})
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(name, value(depth-1), 0, 4), func(m map[string]any) any { return m }),
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(4).Draw(t, "value")
		marshal := json.Marshal
		if rapid.Bool().Draw(t, "indented") {
			marshal = func(v any) ([]byte, error) { return json.MarshalIndent(v, " ", "\t") }
		}
		raw, err := marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		w := keyWalker{b: raw}
		w.value(keys)
		if w.err != nil {
			t.Fatalf("%s: %v", raw, w.err)
		}
		if _, number := v.(float64); !number && v != nil && w.i != len(raw) {
			if _, word := v.(bool); !word {
				t.Fatalf("%s: ended at %d of %d", raw, w.i, len(raw))
			}
		}
	})
}
