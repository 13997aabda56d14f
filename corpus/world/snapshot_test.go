package world_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
)

// What an owner and a world say after a restore is what they would have said:
// a living pair and one that is stored and restored before every step fold the
// same random log.
func TestRestoredWorldAndOwnerGoOnAsTheLivingProperty(t *testing.T) {
	t.Parallel()
	const owner = `  think_seconds: 20
  patience: 2
  messages:
    - {id: m1, text: Go.}
    - {id: m2, text: The log is there., when: {after: time, seconds: 5, document: /log/0, is: present}}
    - {id: m3, text: You wrote., when: {after: message, contains: hello}}
  corrections:
    - {id: k1, type: correction, text: a/b is wrong, when: {after: claim, document: /items/a~1b/n, is_not: 7}, max: 2}`
	const faults = `  - {id: f1, kind: stale_read, tool: get, call: 3}
  - {id: f2, kind: slow, tool: set, call: 2}
  - {id: f3, kind: error_before_commit, tool: log, call: 2}`
	c := load(t, owner, faults)
	calls := [][2]string{
		{"get", `{"id":"a/b"}`},
		{"set", `{"id":"a/b","n":7}`},
		{"set", `{"id":"plain","n":4}`},
		{"log", `{"line":"x"}`},
		{"drop", `{"id":"plain"}`},
		{"mail", `{"to":"ana","text":"hello there"}`},
		{"memo", `{"text":"é\u0000 & <b>"}`},
		{"list", `{}`},
		{"add", `{"id":"new","n":2.50}`},
		{"nothing", `[`},
	}
	rapid.Check(t, func(rt *rapid.T) {
		type pair struct {
			w *world.World
			o *world.Owner
		}
		fresh := func() pair {
			w, err := world.New(c, 7)
			if err != nil {
				rt.Fatal(err)
			}
			o, err := world.NewOwner(c, w)
			if err != nil {
				rt.Fatal(err)
			}
			return pair{w, o}
		}
		stored := func(p pair) (w, o []byte) {
			w, err := p.w.Snapshot()
			if err != nil {
				rt.Fatal(err)
			}
			if o, err = p.o.Snapshot(); err != nil {
				rt.Fatal(err)
			}
			return w, o
		}
		living, other := fresh(), fresh()
		said := func(p pair) string {
			say, ok := p.o.Next()
			docs, err := p.w.Documents()
			return fmt.Sprint(say, ok, p.o.Exhausted(), docs, err, p.w.Messages())
		}
		b := &bench{c: c}
		now := int64(0)
		for i := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			w, o := stored(other)
			again := fresh()
			if err := again.w.Restore(w); err != nil {
				rt.Fatal(err)
			}
			if err := again.o.Restore(o); err != nil {
				rt.Fatal(err)
			}
			w2, o2 := stored(again)
			if !bytes.Equal(w, w2) || !bytes.Equal(o, o2) {
				rt.Fatalf("step %d: stored again:\n%s\n%s\nbefore:\n%s\n%s", i, w2, o2, w, o)
			}
			other = again

			now += rapid.Int64Range(0, 30).Draw(rt, "seconds") * 1_000_000
			entry := engine.LogEntry{Rev: int64(i), Event: engine.Event{Kind: engine.EvModelReply, AtUS: now}}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				if say, ok := living.o.Next(); ok {
					now = max(now, say.AtUS)
					m := say.Message
					entry.Event = engine.Event{ID: say.EventID, Kind: engine.EvOwnerMessage, AtUS: now, Message: &m}
				}
			case 1:
				entry.Commands = []engine.Command{{Kind: engine.CmdClaim, Claim: &engine.Claim{By: "clerk"}}}
			default:
				x := rapid.SampledFrom(calls).Draw(rt, "call")
				key := rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(rt, "key")
				req := b.request(x[0], x[1], key)
				one, err := living.w.Do(t.Context(), req)
				if err != nil {
					rt.Fatal(err)
				}
				two, err := other.w.Do(t.Context(), req)
				if err != nil {
					rt.Fatal(err)
				}
				if d := cmp.Diff(one, two); d != "" {
					rt.Fatalf("step %d, %s %s (-living +restored):\n%s", i, x[0], x[1], d)
				}
				for _, p := range []pair{living, other} {
					if one.Effect != nil {
						if err := p.w.Apply(*one.Effect); err != nil {
							rt.Fatal(err)
						}
					}
					p.w.Called(req.Tool, req.Target)
				}
			}
			living.o.Fold(entry)
			other.o.Fold(entry)
			if a, b := said(living), said(other); a != b {
				rt.Fatalf("step %d: the living pair says\n%s\nthe restored one\n%s", i, a, b)
			}
		}
	})
}

func TestRestoreRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := newRoom(t, quietOwner)
	for snapshot, want := range map[string]string{
		`{`:                       "snapshot",
		`{"format":2}`:            "format 2",
		`{"docs":{},"before":{}}`: "format 0",
		`{"format":1}`:            "documents",
	} {
		if err := r.w.Restore([]byte(snapshot)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("world, %s: %v, want %q", snapshot, err, want)
		}
	}
	for snapshot, want := range map[string]string{
		`{"format":1,"pending":[{"id":"m9","event":"owner/m9"}]}`: "owner/m9 is not in the script",
		`{"format":0}`: "format 0",
	} {
		if err := r.o.Restore([]byte(snapshot)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("owner, %s: %v, want %q", snapshot, err, want)
		}
	}
}

// An owner whose patience is used up has given up after a restore too, and one
// who has a correction left does not start to count anew.
func TestRestoredOwnerKeepsItsPatience(t *testing.T) {
	t.Parallel()
	r := newRoom(t, `  think_seconds: 20
  patience: 2
  messages: [{id: m1, text: Go.}]
  corrections: [{id: k1, type: correction, text: a/b is wrong, when: {after: claim, document: /items/a~1b/n, is_not: 7}, max: 5}]`)
	restored := func() {
		b, err := r.o.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if r.o, err = world.NewOwner(r.c, r.w); err != nil {
			t.Fatal(err)
		}
		if err := r.o.Restore(b); err != nil {
			t.Fatal(err)
		}
	}
	r.hear()
	for i := range 3 {
		restored()
		if r.o.Exhausted() {
			t.Fatalf("the owner gives up after %d corrections", i)
		}
		r.at(int64(100*(i+1)), engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: "clerk"}})
		restored()
		if i < 2 {
			if want := fmt.Sprintf("owner/k1/%d correction@%d", i+1, 100*(i+1)+20); r.next() != want {
				t.Fatalf("the owner says %q, want %q", r.next(), want)
			}
			r.hear()
		}
	}
	if restored(); !r.o.Exhausted() || r.next() != "" {
		t.Errorf("exhausted: %t, next %q", r.o.Exhausted(), r.next())
	}
}
