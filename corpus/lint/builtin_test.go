package lint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/lint"
)

func builtin(t *testing.T) (*corpus.Corpus, *gold.Set) {
	t.Helper()
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatalf("built-in cases:\n%v", err)
	}
	g, err := gold.Builtin()
	if err != nil {
		t.Fatalf("built-in gold:\n%v", err)
	}
	return c, g
}

func TestQ6_BuiltinCorpusIsClean(t *testing.T) {
	t.Parallel()
	c, g := builtin(t)
	for _, f := range lint.Run(c, g) {
		t.Errorf("%s [%s] %s: %s", f.Case, f.Rule, f.Where, f.Text)
	}
}

func TestIssue2_BuiltinCorpusCoversEveryKindInTwoFamilies(t *testing.T) {
	t.Parallel()
	c, g := builtin(t)
	if diff := cmp.Diff([]lint.Finding(nil), lint.Coverage(c, g)); diff != "" {
		t.Error(diff)
	}
}

func TestIssue2_BuiltinCorpusSize(t *testing.T) {
	t.Parallel()
	wantSize(t, families(t, corpus.SplitDev))
}

// TestIssue6_TheHoldoutSharesNoFamilyWithDev: at least 12 holdout cases in 6
// families, none of which anybody has worked on.
func TestIssue6_TheHoldoutSharesNoFamilyWithDev(t *testing.T) {
	t.Parallel()
	dev, holdout := families(t, corpus.SplitDev), families(t, corpus.SplitHoldout)
	wantSize(t, holdout)
	for f := range holdout {
		if dev[f] > 0 {
			t.Errorf("family %s stands in both splits", f)
		}
	}
}

// families counts the cases of a split by family.
func families(t *testing.T, split string) map[string]int {
	t.Helper()
	c, _ := builtin(t)
	cases, err := c.Select(split, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, k := range cases {
		out[k.Family]++
	}
	return out
}

func wantSize(t *testing.T, perFamily map[string]int) {
	t.Helper()
	n := 0
	for f, k := range perFamily {
		n += k
		if k < 2 {
			t.Errorf("family %s has %d case", f, k)
		}
	}
	if n < 12 || len(perFamily) < 6 {
		t.Errorf("%d cases in %d families, at least 12 in 6 are wanted", n, len(perFamily))
	}
}
