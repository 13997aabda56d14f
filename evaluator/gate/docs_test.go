package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

// TestDocs_NameEveryMetricReasonAndPrecondition: docs/gate.md has the table of
// metrics as it is, and every code that a verdict can carry.
func TestDocs_NameEveryMetricReasonAndPrecondition(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "gate.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	want := Preconditions()
	for _, c := range []Code{
		CodeLimit, CodeStraddles, CodeMDE, CodeFamilies, CodeVariation, CodeMissing, CodeCeiling, CodeUnfinished, CodeLook, CodeSimulated,
		CodeKind, CodeNotEvaluable, CodeGrader, CodeNotTested, CodeBroken, CodeCensored, CodeLadder, CodeMultiplicity, CodeRule,
	} {
		want = append(want, string(c))
	}
	for _, w := range want {
		if !strings.Contains(text, "`"+w+"`") {
			t.Errorf("docs/gate.md does not name %s", w)
		}
	}
	for _, m := range evaluator.Metrics() {
		by := "difference"
		if m.Scale == evaluator.ScaleRatio {
			by = "ratio of means"
		}
		if m.Rare {
			by += "; exact bounds"
		}
		if row := "| `" + m.Name + "` | " + m.Unit + " | " + better(&m) + " | " + by + " |"; !strings.Contains(text, row) {
			t.Errorf("docs/gate.md has no row %s", row)
		}
	}
}
