package lint_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/lint"
)

// near are the near-duplicate findings of a corpus.
func near(t *testing.T, c *corpus.Corpus) []lint.Finding {
	t.Helper()
	set, err := gold.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var out []lint.Finding
	for _, f := range lint.Run(c, set) {
		if f.Rule == lint.RuleNearDuplicate {
			out = append(out, f)
		}
	}
	return out
}

// TestQ6_AHoldoutCaseThatRepeatsADevCase: a dev case with other names, ids and
// amounts is found in the holdout; in the dev split or in another family it is
// nobody's business.
func TestQ6_AHoldoutCaseThatRepeatsADevCase(t *testing.T) {
	t.Parallel()
	const id = "ledger-two-books-01"
	text, err := fs.ReadFile(corpus.BuiltinFS(), "ledger/"+id+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.NewReplacer(
		id, "ledger-renamed-09", "split: dev", "split: holdout", "Ana", "Bo", "ana", "bo", "keeper", "registrar", "i-17", "n-4", "i-19", "n-6",
		"4700", "8800", "250", "120", "shop", "farm", "bank", "mill", "May", "June",
	).Replace(string(text))
	load := func(family, text string) *corpus.Corpus {
		c, err := corpus.Load(fstest.MapFS{
			"ledger/" + id + ".yaml":           {Data: mustRead(t, "ledger/"+id+".yaml")},
			family + "/ledger-renamed-09.yaml": {Data: []byte(strings.Replace(text, "family: ledger", "family: "+family, 1))},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	got := near(t, load("ledger", renamed))
	if len(got) != 1 || got[0].Case != "ledger-renamed-09" || !strings.Contains(got[0].Text, "dev case "+id) {
		t.Errorf("findings %+v", got)
	}
	if got := near(t, load("ledger", strings.Replace(renamed, "split: holdout", "split: dev", 1))); got != nil {
		t.Errorf("inside one split: %+v", got)
	}
	if got := near(t, load("farming", renamed)); got != nil {
		t.Errorf("in another family: %+v", got)
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(corpus.BuiltinFS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQ6_CasesWrittenApartAreNoDuplicates: any built-in case may be the holdout
// to the others of its family.
func TestQ6_CasesWrittenApartAreNoDuplicates(t *testing.T) {
	t.Parallel()
	all, _ := builtin(t)
	for i := range all.Cases {
		moved := *all.Cases[i]
		moved.Split = corpus.SplitHoldout
		c := &corpus.Corpus{}
		for j, k := range all.Cases {
			if j == i {
				k = &moved
			}
			c.Cases = append(c.Cases, k)
		}
		if got := near(t, c); got != nil {
			t.Errorf("%+v", got)
		}
	}
}

// TestIssue2_InTwoFamiliesAPlanIsOverhead: in at least two dev families one
// participant alone can do every case, so that a plan only adds calls.
func TestIssue2_InTwoFamiliesAPlanIsOverhead(t *testing.T) {
	t.Parallel()
	c, set := builtin(t)
	workers := map[string]int{} // family → most participants that a case needs
	for _, k := range c.Cases {
		g, ok := set.Get(k.ID)
		if !ok {
			t.Fatal(fmt.Sprint("no gold of ", k.ID))
		}
		by := map[string]bool{}
		for _, s := range g.Solution {
			by[s.By] = true
		}
		if k.Split == corpus.SplitDev {
			workers[k.Family] = max(workers[k.Family], len(by))
		}
	}
	alone := 0
	for _, n := range workers {
		if n == 1 {
			alone++
		}
	}
	if alone < 2 || alone == len(workers) {
		t.Errorf("families by the participants they need: %v; want two or more with one, and not all", workers)
	}
}
