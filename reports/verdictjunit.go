package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"

	"github.com/agentrooms/qualify/evaluator/gate"
)

// junitSuites is the root of a JUnit file.
type junitSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Suite    junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string      `xml:"name,attr"`
	Tests      int         `xml:"tests,attr"`
	Failures   int         `xml:"failures,attr"`
	Errors     int         `xml:"errors,attr"`
	Skipped    int         `xml:"skipped,attr"`
	Properties []junitProp `xml:"properties>property"`
	Cases      []junitCase `xml:"testcase"`
}

type junitProp struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
}

// VerdictJUnit writes a verdict as JUnit XML: one test case a rule and a
// precondition, never one a trial, because trials fail at random. FAIL, a hole
// (nothing was evaluated) and INCONCLUSIVE of a required rule are failures; an
// advisory rule that does not pass is skipped, with its reason. The same
// document gives the same bytes.
func VerdictJUnit(w io.Writer, doc *gate.Document) error { return verdictSuite(doc).write(w) }

func verdictSuite(doc *gate.Document) *junitSuite {
	s := &junitSuite{
		Name: "gate " + Clean(doc.Policy.Name),
		Properties: []junitProp{
			{"verdict", Clean(doc.Label)},
			{"evidence", Clean(doc.Evidence)},
			{"campaign", Clean(doc.Campaign.ID)},
			{"corpus", Clean(doc.Corpus.Digest) + ", split " + Clean(doc.Corpus.Split)},
			{"model", Clean(doc.Model)},
			{"prices", Clean(doc.Prices)},
			{"holdout", FreezeLine(doc)},
			{"budget", proofLine(&doc.Budget)},
			{"policy", Clean(doc.Policy.Digest)},
			{"traces", Clean(doc.TraceSetDigest)},
		},
	}
	for i := range doc.Preconditions {
		c := &doc.Preconditions[i]
		s.add("precondition", c.ID, c.Severity, c.Verdict, c.Reasons, "")
	}
	for i := range doc.Rules {
		r := &doc.Rules[i]
		var b bytes.Buffer
		writeRule(&b, doc, r)
		s.add(string(r.Step), r.ID, r.Severity, r.Verdict, r.Reasons, b.String())
	}
	return s
}

func (s *junitSuite) write(w io.Writer) error {
	s.Tests = len(s.Cases)
	out := bytes.NewBufferString(xml.Header)
	enc := xml.NewEncoder(out)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{Name: "qualify gate", Tests: s.Tests, Failures: s.Failures, Suite: *s}); err != nil {
		return fmt.Errorf("write JUnit: %w", err)
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return wrapWrite(err)
}

func (s *junitSuite) add(class, name string, severity gate.Severity, v gate.Outcome, why []gate.Reason, out string) {
	c := junitCase{Class: Clean(class), Name: Clean(name), Out: out}
	if v != gate.Pass {
		text := &junitText{Type: string(v), Message: string(v) + because(why)}
		if severity == gate.SeverityAdvisory {
			c.Skipped = text
			s.Skipped++
		} else {
			c.Failure = text
			s.Failures++
		}
	}
	s.Cases = append(s.Cases, c)
}
