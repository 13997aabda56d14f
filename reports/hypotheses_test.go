package reports

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator/gate"
)

// TestQ4_HypothesesStandBehindTheRules, in text, Markdown and JSON, with what
// their rules say; JUnit has one case a rule and none for them.
func TestQ4_HypothesesStandBehindTheRules(t *testing.T) {
	t.Parallel()
	doc, without := verdictDoc(t), verdictDoc(t)
	for _, d := range []*gate.Document{doc, without} {
		d.Registered = d.Policy.Digest
	}
	doc.Hypotheses = []gate.HypothesisVerdict{
		doc.Hypothesis("The planner completes |more| of the cases than legacy, and has no effect twice \u202eecirp.", []string{"no-worse", "no-duplicates"}, true),
		doc.Hypothesis("It is no slower.", []string{"fast"}, false),
	}
	var b bytes.Buffer
	for _, write := range []func(io.Writer, *gate.Document) error{VerdictTable, VerdictMarkdown} {
		if err := write(&b, doc); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\u202e") {
			t.Error("the text drives the terminal")
		}
		b.WriteString("\n----\n")
	}
	if err := JSON(&b, doc.Hypotheses); err != nil {
		t.Fatal(err)
	}
	golden(t, "hypotheses.txt", b.Bytes())
	var with, plain bytes.Buffer
	for w, d := range map[*bytes.Buffer]*gate.Document{&with: doc, &plain: without} {
		if err := VerdictJUnit(w, d); err != nil {
			t.Fatal(err)
		}
	}
	if with.String() != plain.String() {
		t.Error("JUnit has changed")
	}
}
