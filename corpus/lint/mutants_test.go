package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

func goldOf(t *testing.T, id string) (*corpus.Case, *gold.Gold) {
	t.Helper()
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	set, err := gold.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	k, ok := c.Case(id)
	if !ok {
		t.Fatal("no case ", id)
	}
	g, _ := set.Get(id)
	plain := *k
	plain.Faults = nil
	return &plain, g
}

// TestQ6_AnActionDoneTwice: what becomes of the gold run when a step is done
// again. A further effect is a duplicate, where one is expected; it passes
// where the gold wants two.
func TestQ6_AnActionDoneTwice(t *testing.T) {
	t.Parallel()
	tests := []struct {
		id, step string
		times    int  // of the expected effects
		effects  int  // more than in the gold run; -1: the world refuses
		passes   bool // nothing is held against it
	}{
		{"errand-meter-01", "s1", 1, 1, false}, // although gold allows other readings of the place
		{"errand-meter-01", "s1", 2, 1, true},
		{"shipping-new-address-02", "s2", 1, 0, false}, // a parcel that is stopped stays so
		{"access-leaver-01", "s6", 1, -1, false},
		{"rollout-timetable-01", "s7", 1, 1, false},
	}
	for _, tt := range tests {
		c, g := goldOf(t, tt.id)
		wide := *g
		wide.Expected = append([]gold.Expected{}, g.Expected...)
		wide.Expected[0].Times = tt.times
		ran, err := outcomeOf(c, g)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for g.Solution[i].ID != tt.step {
			i++
		}
		again := g.Solution[i]
		again.ID += "/again"
		more := -1
		if out, err := outcomeOf(c, with(g, tt.step, g.Solution[i], again)); err == nil {
			more = len(out.Effects) - len(ran.Effects)
		}
		if more != tt.effects {
			t.Errorf("%s: step %s again makes %d further effects, want %d", tt.id, tt.step, more, tt.effects)
		}
		if got := doubledPasses(c, &wide, g.Solution[i], ran); got != tt.passes {
			t.Errorf("%s: step %s twice passes: %v, want %v", tt.id, tt.step, got, tt.passes)
		}
	}
}

// TestQ6_OtherArguments: every other value at hand that the schema takes.
func TestQ6_OtherArguments(t *testing.T) {
	t.Parallel()
	type change struct{ Name, Value string }
	tests := []struct {
		id, tool, args string
		want           []change
	}{
		{"schedule-night-shifts-01", "set_night", `{"weekday":"monday","person":"bela"}`, []change{
			{"person", "chidi"}, {"person", "dagny"}, {"person", "edda"}, {"weekday", "tuesday"}, {"weekday", "wednesday"},
		}},
		{"stock-cellar-count-01", "set_stock", `{"goods":"salt","stock":0}`, []change{
			{"goods", "flour"}, {"goods", "rice"}, {"goods", "oil"}, {"stock", "1"},
		}},
		{"stock-recall-02", "block_pack", `{"pack":"b-19"}`, []change{{"pack", "b-10"}}},
		{"stock-recall-02", "write_shop", `{"shop":"hill","text":"Block b-1."}`, []change{
			{"shop", "hill-x"}, {"shop", otherWords}, {"text", otherWords},
		}},
		{"shipping-carriers-01", "list_crates", `{"packed":true}`, []change{{"packed", "false"}}},
	}
	for _, tt := range tests {
		c, _ := goldOf(t, tt.id)
		tool, ok := c.Tool(tt.tool)
		if !ok {
			t.Fatal("no tool ", tt.tool)
		}
		var got []change
		for _, x := range otherArgs(tool, corpus.Value(tt.args)) {
			got = append(got, change{x.name, x.value})
			if _, err := tool.Args().Check(x.args); err != nil {
				t.Errorf("%s %s: %v", tt.tool, x.args, err)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s:\n%s", tt.tool, tt.args, diff)
		}
	}
}

// TestQ6_NoTwoBuiltinCasesAreAlike: the threshold is far from what cases
// written apart share.
func TestQ6_NoTwoBuiltinCasesAreAlike(t *testing.T) {
	t.Parallel()
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range c.Cases {
		for _, b := range c.Cases[:i] {
			if share := alike(triples(a), triples(b)); share > nearShare/2 {
				t.Errorf("%s and %s share %.2f of their wording", a.ID, b.ID, share)
			}
		}
	}
}
