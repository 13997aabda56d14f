package trace

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
)

// anyJSON draws a JSON document, canonical or not, or none.
func anyJSON(t *rapid.T, name string) json.RawMessage {
	return rapid.SampledFrom([]json.RawMessage{
		nil, json.RawMessage(`{}`), json.RawMessage(`{"a":1,"b":"x"}`), json.RawMessage(` {"b":2.50, "a":"\u00e9"}`),
		json.RawMessage(`{"a":1,"digest":"00","prev":"1"}`), json.RawMessage(`{"a":[1, 2]}`), json.RawMessage("\"\xff\""), json.RawMessage(`"�"`), json.RawMessage(`null`),
		json.RawMessage(`12`), json.RawMessage(`1`), json.RawMessage(`[]`),
	}).Draw(t, name)
}

// What a writer keeps is what a reader finds in the bytes.
func TestKeptTraceIsTheOneRead(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\xff", "a\xc3", "\"body\":{}", `{"args":1}`, "�"}))
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		w := NewWriter(&buf)
		w.Keep()
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		check(w.Header(Header{Case: text.Draw(t, "case"), Arm: text.Draw(t, "arm"), Trial: 3}))
		if w.Trace() != nil {
			t.Fatal("a trace before its end")
		}
		for range rapid.IntRange(0, 12).Draw(t, "records") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				e := Event{AtUS: 4, Kind: text.Draw(t, "kind"), Cause: text.Draw(t, "cause"), Body: anyJSON(t, "body")}
				if rapid.Bool().Draw(t, "money") {
					e.Money = &Money{Charged: 1}
				}
				check(w.Event(e))
			case 1:
				o := rapid.Make[Op]().Draw(t, "op")
				o.Tool = text.Draw(t, "tool")
				check(w.Op(o))
			case 2:
				check(w.Effect(Effect{Op: text.Draw(t, "op"), Target: text.Draw(t, "target"), Args: anyJSON(t, "args"), Suppressed: true}))
			default:
				check(w.Owner(Owner{ID: text.Draw(t, "id"), Text: text.Draw(t, "text")}))
			}
		}
		end := End{Termination: text.Draw(t, "termination")}
		if rapid.Bool().Draw(t, "full") {
			end.Documents = map[string]json.RawMessage{text.Draw(t, "doc"): anyJSON(t, "document")}
			end.Messages = []Message{{Text: text.Draw(t, "said")}}
			end.Claim = &Claim{By: "a"}
		}
		digest, err := w.End(end)
		check(err)
		read, err := Read(bytes.NewReader(buf.Bytes()))
		check(err)
		if d := cmp.Diff(read, w.Trace()); d != "" {
			t.Fatalf("kept another trace (-read +kept):\n%s", d)
		}
		if digest != read.Digest() {
			t.Fatalf("digest %s, read %s", digest, read.Digest())
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	ready := int64(1)
	op := Op{
		AtUS: 9, Op: "op_1", Kind: "agent", Role: "agent", Outcome: "ok", StartUS: 2, ReadyUS: &ready,
		Usage: &engine.Usage{Input: 900}, Request: noDigest,
	}
	for _, keep := range []bool{false, true} {
		name := "write"
		if keep {
			name = "write and keep"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var buf bytes.Buffer
				w := NewWriter(&buf)
				if keep {
					w.Keep()
				}
				err := w.Header(Header{})
				for range 50 {
					if err == nil {
						err = w.Op(op)
					}
				}
				if _, eerr := w.End(End{}); err != nil || eerr != nil {
					b.Fatal(err, eerr)
				}
			}
		})
	}
}
