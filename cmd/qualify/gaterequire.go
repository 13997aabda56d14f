package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports"
	"github.com/agentrooms/qualify/reports/attest"
)

// requireFlags are the flags of qualify gate that make it a publication gate.
type requireFlags struct {
	trustFlags
	file       string
	simulation bool
}

// required reports whether an attestation is asked for.
func (f *requireFlags) required() bool { return len(f.keys) > 0 }

func (f *requireFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.keys, "require-attestation", nil, "block unless the verdict is attested by the public key in `FILE`; give it again for each key")
	fl.StringVar(&f.file, "attestation", "", "the attestation `FILE`")
	f.subjectFlags.add(c, "this `FILE` must be a subject of the attestation", "`NAME=ALGORITHM:HEX` must be a subject; the name does not count")
	fl.IntVar(&f.signatures, "signatures", 0, "how many of the keys must have signed, `N`; 0 is all of them")
	fl.BoolVar(&f.unknown, "allow-unknown-signatures", false, "let signatures by other keys stand; they are not checked")
	fl.StringVar(&f.at, "at", "", "the attestation must be good at this moment, `TIME` in RFC 3339, in place of now")
	fl.BoolVar(&f.simulation, "allow-simulation", false, "let a PASS by simulated evidence through")
}

// consistent refuses flags that ask nothing without a key.
func (f *requireFlags) consistent(c *cobra.Command) error {
	if f.required() {
		return nil
	}
	for _, name := range []string{"attestation", "artifact", "subject", "signatures", "allow-unknown-signatures", "at", "allow-simulation"} {
		if c.Flags().Changed(name) {
			return usagef("gate: --%s goes with --require-attestation, which names the public key%s", name, seeHelp(c))
		}
	}
	return nil
}

// inputs are the files that the flags name.
func (f *requireFlags) inputs() []string {
	return slices.Concat(f.keys, f.artifacts, []string{f.file})
}

// request reads what the flags name, before anything is judged. nil where no
// attestation is asked for.
func (f *requireFlags) request() (*releaseRequest, error) {
	if !f.required() {
		return nil, nil //nolint:nilnil // the gate only judges
	}
	q, err := f.trustFlags.request()
	if err != nil {
		return nil, err
	}
	if f.file != "" {
		if q.data, _, err = readAtMost(f.file, mostAttestation); err != nil {
			return nil, err
		}
	}
	return &releaseRequest{attestRequest: q, file: f.file, simulation: f.simulation}, nil
}

// releaseRequest is what a release must show beside its verdict.
type releaseRequest struct {
	attestRequest
	file       string // "" for none
	simulation bool
}

// release holds the attestation against the verdict just computed and, where
// that names a freeze, its manifest.
func (q *releaseRequest) release(doc *gate.Document, m *freeze.Manifest) (*reports.Release, error) {
	r := &reports.Release{Required: true, File: q.file, Keys: []string{}, Released: []string{}}
	for _, s := range q.subjects {
		r.Released = append(r.Released, digestsOf(s))
	}
	v, err := q.check(doc, m)
	if v != nil {
		r.Keys, r.Result, r.PredicateType, r.Simulation = v.Keys, string(v.Result), v.PredicateType, v.PredicateType == attest.PredicateSimulation
		r.Created, r.ValidUntil = v.Created.Format(time.RFC3339), v.Until.Format(time.RFC3339)
	}
	var finding *attestFinding
	switch {
	case errors.As(err, &finding):
		r.Fault = lineOf(err)
	case err != nil:
		return nil, err
	}
	r.OK = err == nil
	return r, nil
}

// check finds what blocks the release: the attestation first, then the verdict.
// With an error what the attestation says is given as far as it holds.
func (q *releaseRequest) check(doc *gate.Document, m *freeze.Manifest) (*attest.Verified, error) {
	if q.file == "" {
		return nil, found("no attestation is given; qualify attest sign makes one, --attestation names its file")
	}
	v, err := q.verify()
	if errors.Is(err, attest.ErrFormat) {
		return v, found("%w; give the file that qualify attest sign wrote", err)
	}
	if err != nil {
		return v, err
	}
	attested := v.Document
	if attested.Campaign.ID != doc.Campaign.ID {
		return v, found("it is about campaign %s %s, and %s %s was judged; name the campaign that it is about, or sign this one", attested.Campaign.Name, attested.Campaign.ID, doc.Campaign.Name, doc.Campaign.ID)
	}
	if attested.Policy.Digest != doc.Policy.Digest {
		return v, found("it is about a verdict by policy %s, %s, and this one is by %s, %s; sign a verdict by the policy that the release asks for", attested.Policy.Name, attested.Policy.Digest, doc.Policy.Name, doc.Policy.Digest)
	}
	if err := attest.SameVerdict(attested, doc); err != nil {
		return v, found("%w; the traces are not those that were signed, or the signer was wrong: compare the stores, then sign anew", err)
	}
	if m != nil || doc.Freeze.ID != "" {
		if err := attest.CheckFreeze(m, doc, v.Subjects); err != nil {
			return v, found("%w", err)
		}
	}
	switch {
	case v.Result != attest.Passed:
		return v, found("it says %s, since the verdict is %s: only PASS is released; its reasons say what is missing", v.Result, doc.Label)
	case v.PredicateType != attest.PredicateTestResult && !q.simulation:
		return v, found("it is the result of a simulation, which says nothing about any real model; --allow-simulation lets it through")
	}
	return v, nil
}

// releaseDocument is gate --json of a publication gate. Exit is that of the
// command; what the policy says alone stands in verdict and label.
type releaseDocument struct {
	*gate.Document
	Exit        int              `json:"exit"`
	Attestation *reports.Release `json:"attestation"`
}

// exitOf is the exit code of a gate: that of the verdict, unless it passes and
// something blocks the release.
func exitOf(doc *gate.Document, r *reports.Release) int {
	if doc.Exit == exitOK && r != nil && !r.OK {
		return exitFail
	}
	return doc.Exit
}

// writeRelease writes a verdict, with the release where one is asked for.
func writeRelease(w io.Writer, format string, doc *gate.Document, r *reports.Release) error {
	switch {
	case r == nil:
		return writeGate(w, format, doc)
	case format == formatJSON:
		return reports.JSON(w, releaseDocument{doc, exitOf(doc, r), r})
	case format == formatMarkdown:
		return reports.ReleaseMarkdown(w, doc, r)
	}
	if err := reports.VerdictTable(w, doc); err != nil {
		return err
	}
	return reports.ReleaseLine(w, r)
}

// junitOfGate is a verdict as JUnit, with the release where one is asked for.
func junitOfGate(doc *gate.Document, r *reports.Release) ([]byte, error) {
	var b bytes.Buffer
	var err error
	if r == nil {
		err = reports.VerdictJUnit(&b, doc)
	} else {
		err = reports.ReleaseJUnit(&b, doc, r)
	}
	if err != nil {
		return nil, fmt.Errorf("JUnit: %w", err)
	}
	return b.Bytes(), nil
}
