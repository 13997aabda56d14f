package reports

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator/gate"
)

// TestQ8_AReleaseIsToldFirstOrLast: in Markdown before the verdict, in text
// after it, in JUnit as one case more; and no foreign name drives terminal or
// markup.
func TestQ8_AReleaseIsToldFirstOrLast(t *testing.T) {
	t.Parallel()
	doc := verdictDoc(t)
	var plain bytes.Buffer
	if err := VerdictJUnit(&plain, doc); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		r            Release
		failures     int // more than without it
		text, inMark string
	}{
		{
			Release{Fault: "no attestation"},
			1,
			"release: BLOCKED: no attestation\n", "**Release:** BLOCKED: no attestation\n\n# FAIL",
		},
		{
			Release{File: "a\x1b[31m`<b>|.jsonl", Fault: "x\ny"},
			1,
			"release: BLOCKED: attestation a", "**Release:** BLOCKED: attestation a",
		},
		{
			Release{OK: true, File: "a.jsonl", Keys: []string{"SHA256:k", "SHA256:l"}, Result: "PASSED", ValidUntil: "2026-12-01T00:00:00Z"},
			0,
			"release: not blocked; attestation a.jsonl: PASSED, signed by SHA256:k, SHA256:l, valid until 2026-12-01T00:00:00Z; nothing that is released was compared with its subjects (--artifact)\n",
			"**Release:** not blocked; attestation a.jsonl: PASSED",
		},
		{
			Release{OK: true, Simulation: true, File: "a.jsonl", Keys: []string{"SHA256:k"}, Result: "PASSED", Released: []string{"app.tar sha256:00"}},
			0,
			"release: not blocked, by simulated evidence only, which says nothing about any real model; ", "**Release:** not blocked, by simulated evidence only",
		},
	} {
		var line, mark, junit bytes.Buffer
		for _, err := range []error{ReleaseLine(&line, &tc.r), ReleaseMarkdown(&mark, doc, &tc.r), ReleaseJUnit(&junit, doc, &tc.r)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !strings.HasPrefix(line.String(), tc.text) || strings.Count(line.String(), "\n") != 1 {
			t.Errorf("text %q, want %q", line.String(), tc.text)
		}
		if !strings.HasPrefix(mark.String(), tc.inMark) {
			t.Errorf("Markdown %.200q, want %q", mark.String(), tc.inMark)
		}
		for _, out := range []string{line.String(), mark.String(), junit.String()} {
			if strings.Contains(out, "\x1b") {
				t.Errorf("%.80q drives the terminal", out)
			}
		}
		if first, _, _ := strings.Cut(mark.String(), "\n"); strings.Contains(first, "<b>") {
			t.Errorf("%q is markup", first)
		}
		before, after := junitTotals(t, plain.Bytes()), junitTotals(t, junit.Bytes())
		if after.Tests != before.Tests+1 || after.Failures != before.Failures+tc.failures {
			t.Errorf("JUnit: %+v after %+v, want %d failures more", after, before, tc.failures)
		}
	}
}

// TestQ8_AReleaseAddsNothingToTheVerdictBelowIt.
func TestQ8_AReleaseAddsNothingToTheVerdictBelowIt(t *testing.T) {
	t.Parallel()
	doc := verdictDoc(t)
	var alone, with bytes.Buffer
	if err := VerdictMarkdown(&alone, doc); err != nil {
		t.Fatal(err)
	}
	if err := ReleaseMarkdown(&with, doc, &Release{Fault: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, rest, _ := strings.Cut(with.String(), "\n\n"); rest != alone.String() || doc.Verdict.Verdict != gate.Fail {
		t.Errorf("%q", rest)
	}
}

type totals struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
}

func junitTotals(t *testing.T, data []byte) totals {
	t.Helper()
	var x totals
	if err := xml.Unmarshal(data, &x); err != nil {
		t.Fatal(err)
	}
	return x
}
