package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
)

// small writes a trace with one record of each kind.
func small(t testing.TB) ([]byte, string) {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf)
	ready := int64(1)
	steps := []error{
		w.Header(Header{Campaign: "c_1", Arm: "planner", Mode: "planner", Case: "books-01", Family: "books", Split: "dev", Evidence: "simulated", Clock: "virtual", Limits: Limits{BudgetMicros: 80000, ModelCalls: 4}}),
		w.Owner(Owner{AtUS: 0, ID: "m1", Type: "request", From: "ana", Text: "Please ✓ <do> \"it\""}),
		w.Event(Event{AtUS: 5, Kind: "claim", Body: json.RawMessage(`{"b": 25.0, "a": "x"}`), Money: &Money{Charged: 1}}),
		w.Op(Op{AtUS: 9, Op: "op_1", Kind: "tool", Role: "agent", Tool: "fix", Outcome: "ok", StartUS: 2, ReadyUS: &ready, Usage: &engine.Usage{Input: 1 << 60}, Request: "r", Fault: "f1", FaultKind: "timeout_before", Reconciled: &Reconciled{Charged: 3}}),
		w.Effect(Effect{AtUS: 9, Op: "op_1", Identity: "sha256:1", Tool: "fix", Target: "i", Args: json.RawMessage(`{"id":"i"}`), State: StateConfirmed}),
	}
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := w.End(End{AtUS: 12, Termination: "completed", Claim: &Claim{AtUS: 5, By: "p", TextSHA256: "00"}, Documents: map[string]json.RawMessage{"shop": json.RawMessage(`{"z":1,"a":2}`)}, RoomDigest: "r9"})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), d
}

func TestWriterReader_RoundTrip(t *testing.T) {
	t.Parallel()
	b, d := small(t)
	info, err := Verify(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{RecHeader: 1, RecOwner: 1, RecEvent: 1, RecOp: 1, RecEffect: 1, RecEnd: 1}
	if diff := cmp.Diff(want, info.ByRec); diff != "" {
		t.Error(diff)
	}
	if info.Digest != d || info.Records != 6 || info.Termination != "completed" {
		t.Errorf("info %+v, want digest %s", info, d)
	}
	tr, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if tr.Key() != "books-01/planner/0" || tr.Digest() != d || tr.Ops[0].Usage.Input != 1<<60 || tr.Effects[0].N != 4 {
		t.Errorf("read back %+v", tr)
	}
	var again bytes.Buffer
	w := NewWriter(&again)
	_ = w.Header(tr.Header)
	_ = w.Owner(tr.Owners[0])
	_ = w.Event(tr.Events[0])
	_ = w.Op(tr.Ops[0])
	_ = w.Effect(tr.Effects[0])
	if _, err := w.End(tr.End); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(b), again.String()); diff != "" {
		t.Error(diff)
	}
}

// tiny writes the smallest trace that has a claim and a world to judge.
func tiny(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf)
	if err := errors.Join(w.Header(Header{Arm: "a", Case: "c"}), w.Event(Event{Kind: "claim"})); err != nil {
		t.Fatal(err)
	}
	if _, err := w.End(End{AtUS: 1, Termination: "completed", Claim: &Claim{By: "p"}, Documents: map[string]json.RawMessage{"d": json.RawMessage("1")}}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestTrace_EveryFlippedBitFailsVerification flips every bit of a tiny trace
// in turn, and one bit of every byte of a trace with all kinds of records: no
// single-bit change may verify.
func TestTrace_EveryFlippedBitFailsVerification(t *testing.T) {
	t.Parallel()
	flip := func(b []byte, i, bit int) {
		b[i] ^= 1 << bit
		if _, err := Verify(bytes.NewReader(b)); err == nil {
			t.Errorf("bit %d of byte %d flipped (now %q) and the trace still verifies", bit, i, b[i])
		} else if le := (*LineError)(nil); !errors.As(err, &le) {
			t.Errorf("byte %d: error without a line: %v", i, err)
		}
		b[i] ^= 1 << bit
	}
	every := tiny(t)
	for i := range every {
		for bit := range 8 {
			flip(every, i, bit)
		}
	}
	some, _ := small(t)
	for i := range some {
		flip(some, i, i%8)
	}
	for _, b := range [][]byte{every, some} {
		if _, err := Verify(bytes.NewReader(b)); err != nil {
			t.Errorf("the trace itself does not verify: %v", err)
		}
	}
}

func TestReader_RefusesAndNamesTheLine(t *testing.T) {
	t.Parallel()
	b, _ := small(t)
	lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	edit := func(i int, from, to string) func() []string {
		return func() []string {
			out := append([]string(nil), lines...)
			out[i] = strings.Replace(out[i], from, to, 1)
			return out
		}
	}
	for name, tc := range map[string]struct {
		lines func() []string
		line  int
		is    error
	}{
		"empty":              {func() []string { return nil }, 1, ErrTruncated},
		"no end":             {func() []string { return lines[:5] }, 6, ErrTruncated},
		"no header":          {func() []string { return lines[1:] }, 1, ErrOrder},
		"two headers":        {func() []string { return append([]string{lines[0]}, lines...) }, 2, ErrOrder},
		"after end":          {func() []string { return append(append([]string(nil), lines...), lines[5]) }, 7, ErrOrder},
		"gap":                {func() []string { return append(append([]string(nil), lines[:2]...), lines[3:]...) }, 3, ErrOrder},
		"swapped":            {func() []string { return []string{lines[0], lines[2], lines[1], lines[3], lines[4], lines[5]} }, 2, ErrOrder},
		"unknown rec":        {edit(1, `"rec":"owner"`, `"rec":"ower"`), 2, ErrUnknown},
		"unknown field":      {edit(1, `"id":`, `"ID2":1,"id":`), 2, ErrUnknown},
		"nested unknown":     {edit(5, `"by":"p"`, `"by":"p","zz":1`), 6, ErrUnknown},
		"unknown schema":     {edit(0, "trace/v1", "trace/v2"), 1, ErrUnknown},
		"white space":        {edit(2, `"kind":`, `"kind": `), 3, ErrNotCanonical},
		"missing field":      {edit(4, `"suppressed":false,`, ``), 5, ErrNotCanonical},
		"case of a field":    {edit(4, `"target"`, `"Target"`), 5, ErrNotCanonical},
		"no last newline":    {edit(5, "\n", ""), 6, ErrNotCanonical},
		"changed value":      {edit(4, `"target":"i"`, `"target":"j"`), 5, ErrChain},
		"changed claim":      {edit(5, `"by":"p"`, `"by":"q"`), 6, ErrChain},
		"empty documents":    {edit(5, `"documents":{"shop":{"a":2,"z":1}}`, `"documents":{}`), 6, ErrChain},
		"unsorted documents": {edit(5, `{"a":2,"z":1}`, `{"z":1,"a":2}`), 6, ErrNotCanonical},
	} {
		_, err := Read(strings.NewReader(strings.Join(tc.lines(), "")))
		var le *LineError
		if !errors.As(err, &le) || le.Line != tc.line || !errors.Is(err, tc.is) {
			t.Errorf("%s: got %v, want line %d, %v", name, err, tc.line, tc.is)
		}
	}
}

// TestReader_RefusesSoundLinesOutOfTheChain: a line that was changed and
// digested anew is found by its neighbour, and a line after the end is refused
// even when it is chained to it.
func TestReader_RefusesSoundLinesOutOfTheChain(t *testing.T) {
	t.Parallel()
	b, _ := small(t)
	lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	encode := func(e Event) string {
		d, err := recordDigest(&e)
		if err != nil {
			t.Fatal(err)
		}
		e.Digest = d
		line, err := engine.Canonical(&e)
		if err != nil {
			t.Fatal(err)
		}
		return string(line) + "\n"
	}
	tr, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	changed := tr.Events[0]
	changed.AtUS, changed.Digest = 6, ""
	after := Event{Rec: RecEvent, N: len(lines), Kind: "claim", Body: json.RawMessage(`{}`), Prev: tr.Digest()}
	for name, tc := range map[string]struct {
		lines []string
		line  int
		is    error
	}{
		"digested anew":       {[]string{lines[0], lines[1], encode(changed), lines[3], lines[4], lines[5]}, 4, ErrChain},
		"chained to the end":  {append(append([]string(nil), lines...), encode(after)), 7, ErrOrder},
		"the trace as it was": {lines, 0, nil},
		"the event as it was": {[]string{lines[0], lines[1], encode(withoutDigest(tr.Events[0])), lines[3], lines[4], lines[5]}, 0, nil},
	} {
		_, err := Read(strings.NewReader(strings.Join(tc.lines, "")))
		var le *LineError
		if tc.is == nil && err == nil {
			continue
		}
		if !errors.As(err, &le) || le.Line != tc.line || !errors.Is(err, tc.is) {
			t.Errorf("%s: got %v, want line %d, %v", name, err, tc.line, tc.is)
		}
	}
}

func withoutDigest(e Event) Event {
	e.Digest = ""
	return e
}

func TestWriter_RefusesWrongOrder(t *testing.T) {
	t.Parallel()
	w := NewWriter(io.Discard)
	if err := w.Event(Event{Kind: "x"}); err == nil {
		t.Error("event before the header accepted")
	}
	w = NewWriter(io.Discard)
	if err := w.Header(Header{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Event(Event{Kind: "x", Body: json.RawMessage(`{`)}); err == nil {
		t.Error("invalid body accepted")
	}
	if _, err := w.End(End{}); err == nil {
		t.Error("end after an error accepted")
	}
	w = NewWriter(io.Discard)
	_ = w.Header(Header{})
	if _, err := w.End(End{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Owner(Owner{}); err == nil {
		t.Error("record after the end accepted")
	}
	if err := NewWriter(failing{}).Header(Header{}); err == nil {
		t.Error("write error lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestSetDigest_OrderFreeAndSensitive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,4}/[ab]/[0-9]`), 1, 8, rapid.ID[string]).Draw(t, "keys")
		var es []SetEntry
		for _, k := range keys {
			es = append(es, SetEntry{k, engine.Digest([]byte(k))})
		}
		a, err := SetDigest(es)
		if err != nil {
			t.Fatal(err)
		}
		b, err := SetDigest(rapid.Permutation(es).Draw(t, "order"))
		if err != nil || a != b {
			t.Fatalf("order changes the digest: %s %s %v", a, b, err)
		}
		es[0].Digest = engine.Digest([]byte("other"))
		if c, _ := SetDigest(es); c == a {
			t.Fatal("another trace, the same set digest")
		}
		if _, err := SetDigest(append(es, es[0])); err == nil {
			t.Fatal("repeated key accepted")
		}
	})
}

func FuzzReader(f *testing.F) {
	b, _ := small(f)
	f.Add(b)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		tr, err := Read(bytes.NewReader(in))
		if err != nil {
			return
		}
		info, err := Verify(bytes.NewReader(in))
		if err != nil || info.Digest != tr.Digest() {
			t.Fatalf("Read accepts, Verify says %v", err)
		}
	})
}
