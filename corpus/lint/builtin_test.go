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
	c, _ := builtin(t)
	dev, err := c.Select(corpus.SplitDev, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	perFamily := map[string]int{}
	for _, k := range dev {
		perFamily[k.Family]++
	}
	if len(dev) < 12 || len(perFamily) < 6 {
		t.Errorf("%d dev cases in %d families, at least 12 in 6 are wanted", len(dev), len(perFamily))
	}
	for f, n := range perFamily {
		if n < 2 {
			t.Errorf("family %s has %d case", f, n)
		}
	}
}
