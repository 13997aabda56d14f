package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus/lint"
)

// What the edits of the small case start from: the check of c-told, the effect
// expected for it, and the last step.
const (
	told  = `{message: {to: ana, via: note, contains_all: ["300"]}}`
	noted = `  - {tool: note, args: {to: ana}}`
	last  = `{step: s3, by: clerk, call: note, args: {to: ana, text: "Tea is at 300."}, after: [s2], meets: [c-told], report: true}`
)

// TestQ6_TheOracleMissesEveryAction: the gold run with one action left out or
// changed fails something, or the audit says so. (Done twice: the next test, and
// TestQ6_AnActionDoneTwice.)
func TestQ6_TheOracleMissesEveryAction(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		inCase []string
		inGold []string
		want   []string
	}{
		{"an action that nobody judges", nil, []string{told, "{document: /prices/tea/cents, equals: 300}", noted, "allowed_effects:\n" + noted}, []string{
			"the gold run without step s3 fails nothing",
			"the gold run with another text in step s3 (Nothing of the kind.) fails nothing; if its value does not matter, name it in free of the effect",
		}},
		{"an argument that nobody judges", nil, []string{"cents, equals: 300}", "cents, is_not: 250}", "args: {item: tea, cents: 300}}\n", "args: {item: tea}}\n"}, []string{
			"the gold run with another cents in step s2 (301) fails nothing; if its value does not matter, name it in free of the effect",
		}},
		{"and the gold file says so", nil, []string{"cents, equals: 300}", "cents, is_not: 250}", "args: {item: tea, cents: 300}}\n", "args: {item: tea}, free: [cents]}\n"}, nil},
		{"free in the entry of another effect", nil, []string{
			"cents, equals: 300}", "cents, is_not: 250}", "args: {item: tea, cents: 300}}\n", "args: {item: tea}}\n",
			noted, noted + "\nallowed_effects:\n  - {tool: set_price, args: {item: oil}, free: [cents]}",
		}, []string{
			"the gold run with another cents in step s2 (301) fails nothing; if its value does not matter, name it in free of the effect",
		}},
		{"a message of any content", nil, []string{told, "{message: {to: ana, via: note}}"}, []string{
			"the gold run with another text in step s3 (Nothing of the kind.) fails nothing; if its value does not matter, name it in free of the effect",
		}},
		{"words of any content", []string{"tools: [show, set_price, note]", "tools: [show, set_price]", "  - {name: note,", "  #- {name: note,"}, []string{
			told, "{message: {to: ana}}", noted, "",
			last, `{step: s3, by: clerk, say: "Tea is at 300.", after: [s2], meets: [c-told], report: true}`,
		}, []string{`the gold run with another text in step s3 ("Nothing of the kind.") fails nothing`}},
		{"words that nobody reads", nil, []string{"  - " + last, "  - " + strings.Replace(last, ", report: true", "", 1) + "\n  - {step: s4, by: clerk, say: \"There.\", report: true}"}, []string{
			"the gold run without step s4 fails nothing",
			`the gold run with another text in step s4 ("Nothing of the kind.") fails nothing`,
		}},
		{"an artifact of any content", nil, []string{
			"  - " + last, "  - " + strings.Replace(last, ", report: true", "", 1) + "\n  - {step: s4, by: clerk, artifact: {name: list, text: tea}, report: true}",
			told, "{all: [" + told + ", {artifact: {name: list}}]}",
		}, []string{`the gold run with another artifact text in step s4 ("Nothing of the kind.") fails nothing`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range run(t, tt.inCase, tt.inGold) {
				if f.Rule != lint.RuleUnproven {
					t.Errorf("another finding: %+v", f)
					continue
				}
				if !strings.HasPrefix(f.Where, "shop/shop-one-01.yaml:") {
					t.Errorf("at %q", f.Where)
				}
				got = append(got, f.Text)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestQ6_TheAuditDoesEachActionTwice: a repeat is a duplicate unless gold wants
// two, and then the gold run itself, which makes one, is at fault too.
func TestQ6_TheAuditDoesEachActionTwice(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range run(t, nil, []string{noted, "  - {tool: note, args: {to: ana}, times: 2}"}) {
		got = append(got, f.Rule+": "+f.Text)
	}
	const want = lint.RuleUnproven + ": the gold run that does step s3 twice fails nothing"
	if !slices.Contains(got, want) {
		t.Errorf("findings %q, want %q among them", got, want)
	}
}
