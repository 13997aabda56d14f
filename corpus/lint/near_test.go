package lint_test

import (
	"bytes"
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

// TestQ6_ACaseThatRepeatsAnotherIsFound: a case with other names, ids and
// amounts is found across the splits and within each, in its family and in
// another one; across the splits at the holdout case, wherever it stands.
func TestQ6_ACaseThatRepeatsAnotherIsFound(t *testing.T) {
	t.Parallel()
	const id, copied = "ledger-two-books-01", "ledger-renamed-09"
	renamed := strings.NewReplacer(
		id, copied, "Ana", "Bo", "ana", "bo", "keeper", "registrar", "i-17", "n-4", "i-19", "n-6",
		"4700", "8800", "250", "120", "shop", "farm", "bank", "mill", "May", "June",
	).Replace(string(mustRead(t, "ledger/"+id+".yaml")))
	tests := []struct {
		split, copySplit, family string
		at, text                 string
	}{
		{"dev", "holdout", "ledger", copied, "the holdout case says what dev case " + id},
		{"holdout", "dev", "ledger", id, "the holdout case says what dev case " + copied},
		{"dev", "holdout", "zoo", copied, "the holdout case says what dev case " + id},
		{"holdout", "dev", "zoo", id, "the holdout case says what dev case " + copied},
		{"dev", "dev", "ledger", id, "the dev case says what dev case " + copied},
		{"holdout", "holdout", "ledger", id, "the holdout case says what holdout case " + copied},
	}
	for _, tt := range tests {
		t.Run(tt.split+" "+tt.copySplit+" "+tt.family, func(t *testing.T) {
			t.Parallel()
			c, err := corpus.Load(fstest.MapFS{
				"ledger/" + id + ".yaml":           {Data: bytes.Replace(mustRead(t, "ledger/"+id+".yaml"), []byte("split: dev"), []byte("split: "+tt.split), 1)},
				tt.family + "/" + copied + ".yaml": {Data: []byte(strings.NewReplacer("family: ledger", "family: "+tt.family, "split: dev", "split: "+tt.copySplit).Replace(renamed))},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := near(t, c); len(got) != 1 || got[0].Case != tt.at || !strings.Contains(got[0].Text, tt.text) {
				t.Errorf("findings %+v, want one at %s: %s", got, tt.at, tt.text)
			}
		})
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

// TestIssue2_InTwoFamiliesAPlanIsOverhead: in at least two families of each
// split one participant alone can do every case, so that a plan only adds
// calls.
func TestIssue2_InTwoFamiliesAPlanIsOverhead(t *testing.T) {
	t.Parallel()
	c, set := builtin(t)
	for _, split := range []string{corpus.SplitDev, corpus.SplitHoldout} {
		workers := map[string]int{} // family → most participants that a case needs
		for _, k := range c.Cases {
			g, ok := set.Get(k.ID)
			if !ok {
				t.Fatal("no gold of ", k.ID)
			}
			by := map[string]bool{}
			for _, s := range g.Solution {
				by[s.By] = true
			}
			if k.Split == split {
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
			t.Errorf("%s families by the participants they need: %v; want two or more with one, and not all", split, workers)
		}
	}
}
