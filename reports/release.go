package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/agentrooms/qualify/evaluator/gate"
)

// Release is what a publication gate says beside a verdict: whether the
// attestation that was asked for lets a release go out. `qualify gate --json`
// prints it as the block "attestation".
type Release struct {
	Required bool   `json:"required"` // always true: without the question there is no block
	OK       bool   `json:"ok"`       // the verdict is PASS and the attestation holds: nothing blocks the release
	Fault    string `json:"fault"`    // what blocks it, and what to do; "" when OK
	File     string `json:"file"`     // the attestation; "" when none was given
	// Keys are the ids of the keys that signed, of those asked for. They and the
	// rest are told only after signatures and statements were found right.
	Keys          []string `json:"keys"`
	Result        string   `json:"result"` // PASSED, WARNED, FAILED, or ""
	PredicateType string   `json:"predicate_type"`
	Simulation    bool     `json:"simulation"` // the attestation is one of a simulation
	Created       string   `json:"created"`    // RFC 3339
	ValidUntil    string   `json:"valid_until"`
	Released      []string `json:"released"` // names and digests that were looked for among the subjects
}

// ReleaseLine writes the release in one line of text, which ends the output of
// a gate. It says BLOCKED or not blocked, and why.
func ReleaseLine(w io.Writer, r *Release) error {
	_, err := fmt.Fprintf(w, "release: %s\n", Clean(r.words()))
	return wrapWrite(err)
}

// ReleaseMarkdown writes a verdict as VerdictMarkdown does, below a first line
// about the release: who reads only the beginning must not take a PASS for a
// release.
func ReleaseMarkdown(w io.Writer, doc *gate.Document, r *Release) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "**Release:** %s\n\n", md(r.words()))
	if err := VerdictMarkdown(&b, doc); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

// ReleaseJUnit writes a verdict as VerdictJUnit does, with one test case more:
// the attestation.
func ReleaseJUnit(w io.Writer, doc *gate.Document, r *Release) error {
	s := verdictSuite(doc)
	v, why := gate.Pass, []gate.Reason(nil)
	if !r.OK {
		v, why = gate.Fail, []gate.Reason{{Text: r.Fault}}
	}
	s.add("release", "attestation", gate.SeverityRequired, v, why, "release: "+Clean(r.words())+"\n")
	return s.write(w)
}

// words tell the release.
func (r *Release) words() string {
	if !r.OK {
		if r.File == "" {
			return "BLOCKED: " + r.Fault
		}
		return fmt.Sprintf("BLOCKED: attestation %s: %s", r.File, r.Fault)
	}
	s := "not blocked"
	if r.Simulation {
		s += ", by simulated evidence only, which says nothing about any real model"
	}
	s += fmt.Sprintf("; attestation %s: %s, signed by %s, valid until %s", r.File, r.Result, strings.Join(r.Keys, ", "), r.ValidUntil)
	if len(r.Released) == 0 {
		return s + "; nothing that is released was compared with its subjects (--artifact)"
	}
	return s + "; its subjects hold " + strings.Join(r.Released, ", ")
}
