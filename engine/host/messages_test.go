package host_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
)

// What the coordinator planned and decided is readable in the room, under its
// name, in pages that miss and repeat nothing (R68).
func TestR68_PlansAndDecisionsAreReadableInTheRoom(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	x.accept("m1")
	x.tick()
	all, next, err := x.s.Messages(ctx, tenant, room, -1, 0)
	x.must(err)
	if next != x.look().Rev {
		t.Errorf("next %d at revision %d", next, x.look().Rev)
	}
	ids := map[string]bool{}
	var posted string
	for _, m := range all {
		if ids[m.ID] || m.Text == "" || m.AtUS == 0 {
			t.Errorf("%+v", m)
		}
		ids[m.ID] = true
		if m.Posted {
			posted += m.Text + "\n"
			if m.From != "coordinator" {
				t.Errorf("posted by %s", m.From)
			}
		}
	}
	for _, want := range []string{"collect, then report", "collect", "report"} {
		if !strings.Contains(posted, want) {
			t.Errorf("the room's readers are not told %q:\n%s", want, posted)
		}
	}
	first, last := all[0], all[len(all)-1]
	if first.ID != "m1" || first.From != "ana" || first.Type != engine.MsgRequest || last.Status != engine.StatusDone || last.Posted {
		t.Errorf("first %+v, last %+v", first, last)
	}
	var paged []host.Message
	for after := int64(-1); ; {
		page, next, err := x.s.Messages(ctx, tenant, room, after, 1)
		x.must(err)
		if next == after {
			break
		}
		paged, after = append(paged, page...), next
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Error(diff)
	}
	_, _, err = x.s.Messages(ctx, "umbrella", room, -1, 0)
	want(t, err, engine.CodeNotFound)
}
