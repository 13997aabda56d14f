package campaigns

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// records is all that a store has of a campaign.
type records struct {
	Campaign store.Campaign
	Trials   []store.Trial
	Traces   map[string]string
}

// recordsOf reads a campaign's records and checks that its index is consistent:
// each trial that is said to be closed has its trace, sound, with the digest
// that its record names.
func recordsOf(t *testing.T, st store.Store, p *Plan) records {
	t.Helper()
	c, err := st.Campaign(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := st.Trials(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	out := records{Campaign: c, Trials: trials, Traces: map[string]string{}}
	for _, tr := range trials {
		if tr.Status != TrialClosed {
			continue
		}
		digest, content, err := st.Trace(t.Context(), p.ID, tr.Key)
		if err != nil {
			t.Errorf("trace of the closed trial %s: %v", tr.Key, err)
			continue
		}
		read, err := trace.Read(bytes.NewReader(content))
		if err != nil || digest != tr.TraceDigest || read.Digest() != digest {
			t.Errorf("trial %s: record %s, trace stored as %s, error %v", tr.Key, tr.TraceDigest, digest, err)
		}
		out.Traces[tr.Key] = string(content)
	}
	return out
}

// Field report 16: whatever write of a trial's end fails, and in whatever way,
// the records of the campaign before it are untouched, and those of its own name
// no trace that is not there; run again it comes to the same traces. Half of the
// pairs; all of them when QUALIFY_LONG is set.
func TestF16_AFailedWriteLeavesEarlierRecordsAndTheIndex(t *testing.T) {
	t.Parallel()
	p := faultPlan(t)
	want, calls, _ := measured(t, p)
	old := mustResolve(t, func(s string) string {
		for _, r := range [][2]string{
			{"  - {name: selective, mode: selective, idempotency: on}\n", ""},
			{"  - {name: planner, mode: planner, idempotency: on, options: {reviewers: 1}}\n", ""},
			{`include: ["*"]`, `include: ["ledger-two-books-01"]`},
			{"trials: 5", "trials: 1"},
			{"seed: 7", "seed: 9"},
		} {
			s = strings.Replace(s, r[0], r[1], 1)
		}
		return s
	}, nil)
	for i, op := range []faultstore.Op{"PutTrace", "PutTrial", "SetCampaignStatus", "Release"} {
		for k, kind := range []faultstore.Kind{faultstore.FailBefore, faultstore.FailAfter, faultstore.LoseReply, faultstore.DiskFull} {
			if (i+k)%2 > 0 && os.Getenv("QUALIFY_LONG") == "" {
				continue
			}
			nth := min(calls[op], 2)
			name := fmt.Sprintf("%s %s", kind, op)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inner := memStore(t)
				if kind == faultstore.DiskFull || op == "PutTrial" {
					inner = fileStore(t)
				}
				j := &model.MemoryJournal{}
				if first := runFaulty(t.Context(), t, old, inner, j); first.err != nil {
					t.Fatal(first.err)
				}
				before := recordsOf(t, inner, old)
				f, err := faultstore.New(inner, faultstore.Plan{Faults: []faultstore.Fault{{Op: op, Nth: nth, Kind: kind}}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				got := runFaulty(t.Context(), t, p, f, j)
				if len(f.Fired()) == 0 {
					t.Fatal("the fault never came")
				}
				if diff := cmp.Diff(before, recordsOf(t, inner, old)); diff != "" {
					t.Errorf("the campaign before it has changed:\n%s", diff)
				}
				half := recordsOf(t, inner, p)
				again := runFaulty(t.Context(), t, p, inner, j)
				if again.err != nil || again.out.SetDigest != want.out.SetDigest {
					t.Fatalf("after %v: run again: %v", got.err, again.err)
				}
				whole := recordsOf(t, inner, p)
				for key, content := range half.Traces {
					if whole.Traces[key] != content {
						t.Errorf("trace %s was stored and has changed", key)
					}
				}
				if diff := cmp.Diff(before, recordsOf(t, inner, old)); diff != "" {
					t.Errorf("the campaign before it has changed:\n%s", diff)
				}
			})
		}
	}
}

func fileStore(t *testing.T) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "q.db"), sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}
