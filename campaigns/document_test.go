package campaigns

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The campaign is told running while it runs, also after a limit stopped it;
// its run document is stored with each end; progress tells trials that this
// process ran from those it took from the store.
func TestStatusDocumentAndProgressOverTwoRuns(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	st := memStore(t)
	type seen struct {
		Status, Document string // after the run
		During           string // status at the last trial
		Ran, Done        int
	}
	once := func(ceiling, document string) seen {
		t.Helper()
		var got seen
		p := talkPlan(t, ceiling)
		res := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) {
			r.Document = func(ctx context.Context, out *Outcome) ([]byte, error) {
				c, err := st.Campaign(ctx, p.ID)
				if want := map[bool]string{true: StatusDone, false: StatusStopped}[len(out.Dropped) == 0]; err != nil || c.Status != want {
					t.Errorf("status when the document is made: %q (%v), want %q", c.Status, err, want)
				}
				return []byte(document), nil
			}
			r.Progress = func(at Progress) {
				c, err := st.Campaign(t.Context(), p.ID)
				if err != nil {
					t.Error(err)
				}
				got.During, got.Ran, got.Done = c.Status, at.Ran, at.Done
			}
		})
		if (res.err == nil) != (len(res.out.Dropped) == 0) {
			t.Errorf("%v with %d triples dropped", res.err, len(res.out.Dropped))
		}
		c, err := st.Campaign(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		got.Status, got.Document = c.Status, string(c.Totals)
		return got
	}
	first := once("0.61", "one")
	if first.Done == 0 || first.Ran != first.Done {
		t.Errorf("first run: %d of %d trials ran in this process", first.Ran, first.Done)
	}
	all := 3 * len(talkPlan(t, "50").Cases) * 2
	want := []seen{
		{StatusStopped, "one", StatusRunning, first.Done, first.Done},
		{StatusDone, "two", StatusRunning, all - first.Done, all},
		{StatusDone, "three", StatusDone, 0, all}, // a finished one only says again what it found
	}
	if diff := cmp.Diff(want, []seen{first, once("50", "two"), once("50", "three")}); diff != "" {
		t.Errorf("three runs (-want +got):\n%s", diff)
	}
}
