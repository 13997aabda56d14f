package campaigns

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// The proof names everything Q3 lists, and each thing that one arm would be
// given otherwise refuses the run with both values.
func TestQ3_MatchedArmsAreProvenByDigest(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	arms := p.matched()
	a, err := p.facts(arms[0])
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.prove()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"legacy", "selective", "planner"}, m.Arms); d != "" {
		t.Errorf("arms compared (-want +got):\n%s", d)
	}
	want := []string{
		"cases", "corpus", "faults", "grader", "limits", "model", "owner", "params", "permissions", "prices", "provider", "simulated",
		"tools", "trials", "world_seeds", "worlds",
	}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(m.Shared))); d != "" {
		t.Errorf("things proven (-want +got):\n%s", d)
	}
	b, err := p.facts(arms[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := compareFacts("a", "b", a, b, p.UnderTest); err != nil {
		t.Fatalf("matched arms: %v", err)
	}
	for i := range b {
		changed := slices.Clone(b)
		changed[i].value, changed[i].digest = `"forged"`, "sha256:"+engine.Digest([]byte(`"forged"`))
		err := compareFacts("a", "b", a, changed, p.UnderTest)
		if slices.Contains(p.UnderTest, b[i].what) {
			if err != nil {
				t.Errorf("%s is under test: %v", b[i].what, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s %s: a difference goes unnoticed", b[i].what, b[i].key)
			continue
		}
		other := a[i].value
		if len(other) > shownValue {
			other = a[i].digest
		}
		for _, w := range []string{"arms a and b differ in " + b[i].what, b[i].key, `"forged"`, other} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not name %q", err, w)
			}
		}
	}
	for _, w := range p.UnderTest {
		x, y := slices.Clone(a), slices.Clone(b)
		err := compareFacts("a", "b", x, y, slices.DeleteFunc(slices.Clone(p.UnderTest), func(u string) bool { return u == w }))
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("arms that differ in %s, which is not under test: %v", w, err)
		}
	}
}

// Permissions are compared as the union of what the participants may use, so
// that a single agent is allowed exactly what a whole room is.
func TestQ3_PermissionsAreTheUnionOfTools(t *testing.T) {
	t.Parallel()
	spec := engine.RoomSpec{Agents: []engine.Participant{{Tools: []string{"b", "a"}}, {Tools: []string{"c", "a"}}, {}}}
	if d := cmp.Diff([]string{"a", "b", "c"}, permissions(spec)); d != "" {
		t.Error(d)
	}
}

// A long value is shown around the place where it differs.
func TestQ3_LongValuesAreShownAtTheDifference(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	a, b := fact{what: "tools", value: long + "HERE" + long, digest: "sha256:1"}, fact{what: "tools", value: long + "THERE" + long, digest: "sha256:2"}
	err := compareFacts("a", "b", []fact{a}, []fact{b}, nil)
	if err == nil || !strings.Contains(err.Error(), "HERE") || !strings.Contains(err.Error(), "THERE") || len(err.Error()) > 500 {
		t.Errorf("error %v", err)
	}
}

// The registration is sealed once per campaign, before its first trial, and its
// digest stands in every trace; it does not depend on the code version, nor on
// ceilings or parallelism.
func TestQ4_RegistrationIsSealedOnce(t *testing.T) {
	t.Parallel()
	p := talkPlan(t, "50")
	st := memStore(t)
	var calls atomic.Int64
	got := runTalk(t.Context(), t, p, st, &calls, nil)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if again := runTalk(t.Context(), t, p, st, &calls, nil); again.err != nil {
		t.Fatal(again.err)
	}
	log, err := st.SealLog(t.Context())
	if err != nil || len(log) != 1 || log[0].Kind != SealRegistration {
		t.Fatalf("seal log %+v, %v; want one registration", log, err)
	}
	var row sealed
	if err := json.Unmarshal(log[0].Body, &row); err != nil {
		t.Fatal(err)
	}
	var record Registration
	if err := json.Unmarshal(row.Record, &record); err != nil {
		t.Fatal(err)
	}
	if row.Campaign != p.ID || row.Digest != p.Registration || "sha256:"+engine.Digest(row.Record) != p.Registration {
		t.Errorf("sealed %s %s", row.Campaign, row.Digest)
	}
	if record.Plan != p.PlanDigest || record.Seed != p.Seed || record.Trials != p.Trials || len(record.Arms) != len(p.Arms) || record.Matched.Shared["tools"] == "" {
		t.Errorf("record %+v", record)
	}
	c, err := st.Campaign(t.Context(), p.ID)
	if err != nil || c.Registration != p.Registration {
		t.Errorf("stored campaign has registration %q, %v", c.Registration, err)
	}
	for key, b := range got.bytes {
		tr, err := trace.Read(strings.NewReader(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		if tr.Header.Registration != p.Registration {
			t.Fatalf("trace %s names registration %q", key, tr.Header.Registration)
		}
	}
	newer := mustResolve(t, nil, func(in *ResolveInput) { in.CodeVersion = "v2" })
	older := mustResolve(t, func(s string) string { return strings.Replace(s, `"50.00"`, `"60.00"`, 1) }, nil)
	if newer.Registration != older.Registration || newer.ID == older.ID {
		t.Error("a new build or another ceiling is another registration")
	}
	for _, r := range [][2]string{{"seed: 7", "seed: 8"}, {"trials: 5", "trials: 4"}, {"name: demo", "name: other"}} {
		if q := mustResolve(t, func(s string) string { return strings.Replace(s, r[0], r[1], 1) }, nil); q.Registration == newer.Registration {
			t.Errorf("%s: the same registration", r[1])
		}
	}
}

// unborn fails to store a campaign, as if the process had died just before.
type unborn struct{ store.Store }

func (unborn) PutCampaign(context.Context, store.Campaign) error { return errors.New("died") }

// mute takes no row into its seal log.
type mute struct{ store.Store }

func (mute) AppendSealAfter(context.Context, string, string, []byte) (store.SealRow, error) {
	return store.SealRow{}, errors.New("disk full")
}

// TestQ4_WithoutItsRegistrationNoTrialRuns: a registration that cannot be sealed
// ends the run before anything is stored or called.
func TestQ4_WithoutItsRegistrationNoTrialRuns(t *testing.T) {
	t.Parallel()
	p, st := talkPlan(t, "50"), memStore(t)
	var calls atomic.Int64
	if got := runTalk(t.Context(), t, p, mute{st}, &calls, nil); got.err == nil || !strings.Contains(got.err.Error(), "registration of campaign "+p.ID+": disk full") {
		t.Errorf("%v", got.err)
	}
	if _, err := st.Campaign(t.Context(), p.ID); !errors.Is(err, store.ErrNotFound) || calls.Load() != 0 {
		t.Errorf("stored (%v), %d calls", err, calls.Load())
	}
}

func TestQ4_ACrashAfterTheSealDoesNotSealTwice(t *testing.T) {
	t.Parallel()
	p, st := talkPlan(t, "50"), memStore(t)
	var calls atomic.Int64
	if got := runTalk(t.Context(), t, p, unborn{st}, &calls, nil); got.err == nil {
		t.Fatal("ran without a stored campaign")
	}
	r := &Runner{Plan: p, Store: st}
	if err := r.seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log, err := st.SealLog(t.Context()); err != nil || len(log) != 1 || calls.Load() != 0 {
		t.Errorf("seal log of %d rows, %v, %d calls", len(log), err, calls.Load())
	}
}
