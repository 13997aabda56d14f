package lint_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/lint"
)

// TestQ6_AnAuditOfSomeCasesIsPartOfTheWhole: it finds of them what the whole
// audit finds, and nothing else, in a corpus with faults of a case, faults
// between cases, a case without gold and gold without a case.
func TestQ6_AnAuditOfSomeCasesIsPartOfTheWhole(t *testing.T) {
	t.Parallel()
	cases, golds := fstest.MapFS{}, fstest.MapFS{}
	ids := []string{"shop-one-01", "shop-one-02", "shop-one-03", "shop-one-04"}
	for i, id := range ids {
		file := "shop/" + id + ".yaml"
		cases[file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(caseText, ids[0], id))}
		text := strings.ReplaceAll(goldText, ids[0], id)
		if i == 1 {
			text = strings.Replace(text, "equals: 300", "equals: 250", 1)
		}
		golds[file] = &fstest.MapFile{Data: []byte(text)}
	}
	delete(golds, "shop/"+ids[3]+".yaml")
	golds["shop/gone-01.yaml"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(goldText, ids[0], "gone-01"))}
	c, err := corpus.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	set, err := gold.Load(golds)
	if err != nil {
		t.Fatal(err)
	}
	all := lint.Run(c, set)
	var rules []string
	for _, f := range all {
		rules = append(rules, f.Rule)
	}
	for _, r := range []string{lint.RuleNoGold, lint.RuleSameActions, lint.RuleNearDuplicate, lint.RuleGoldRun} {
		if !slices.Contains(rules, r) {
			t.Fatalf("the corpus shows no %s: %v", r, rules)
		}
	}
	for n := range 1 << len(ids) {
		some := func(id string) bool {
			i := slices.Index(ids, id)
			return i >= 0 && n>>i&1 == 1
		}
		want := slices.DeleteFunc(slices.Clone(all), func(f lint.Finding) bool { return f.Case != "" && !some(f.Case) })
		if diff := cmp.Diff(want, lint.RunOf(c, set, some)); diff != "" {
			t.Errorf("cases %04b (-want +got):\n%s", n, diff)
		}
	}
}
