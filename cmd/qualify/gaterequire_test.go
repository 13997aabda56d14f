package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports"
	"github.com/agentrooms/qualify/reports/attest"
)

// publication is a measured PASS under a freeze, as no test can run one, with
// the key of whoever signs it.
type publication struct {
	key      *attest.PrivateKey
	manifest *freeze.Manifest
	doc      *gate.Document
	subject  attest.Resource
}

var publicationTime = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func newPublication(t *testing.T) *publication {
	t.Helper()
	g := signing{t.TempDir()}
	g.write(t, "app.tar", "what is released")
	m, err := freeze.Build(t.Context(), freeze.Inputs{Name: "n", Root: g.dir, Include: []string{"app.tar"}})
	if err != nil {
		t.Fatal(err)
	}
	p := &publication{manifest: m, subject: attest.Resource{Name: "app.tar", Digest: map[string]string{"sha256": m.Trees[0].Files[0].SHA256}}}
	if p.key, err = attest.Generate(rand.Reader); err != nil {
		t.Fatal(err)
	}
	p.doc = gate.NewDocument(gate.Verdict{Verdict: gate.Pass, Label: "PASS", Evidence: evaluator.EvidenceMeasured})
	some := "sha256:" + strings.Repeat("0", 64)
	p.doc.Campaign = evaluator.RunCampaign{ID: "c_1", Name: "rel", Registration: some}
	p.doc.Policy = gate.PolicyRef{Name: "release", Kind: gate.KindMeasured, Digest: some}
	p.doc.TraceSetDigest, p.doc.Corpus.Digest, p.doc.Prices = some, some, some
	if p.doc.Freeze.ID, err = m.ID(); err != nil {
		t.Fatal(err)
	}
	return p
}

// copied is the document, to be changed.
func (p *publication) copied(t *testing.T, change func(d *gate.Document)) *gate.Document {
	t.Helper()
	data, err := json.Marshal(p.doc)
	if err != nil {
		t.Fatal(err)
	}
	d := new(gate.Document)
	if err := json.Unmarshal(data, d); err != nil {
		t.Fatal(err)
	}
	change(d)
	return d
}

func (p *publication) sign(t *testing.T, d *gate.Document, simulation bool) []byte {
	t.Helper()
	m := p.manifest
	if d.Freeze.ID == "" {
		m = nil
	}
	a, err := attest.Sign(attest.Claim{
		Document: d, Subjects: []attest.Resource{p.subject}, Created: publicationTime, Until: publicationTime.AddDate(0, 0, 1), Simulation: simulation, Manifest: m,
	}, p.key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := a.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// forge signs an attestation whose subject the freeze does not hold, which
// package attest refuses to make.
func (p *publication) forge(t *testing.T) []byte {
	t.Helper()
	a, err := attest.Parse(p.sign(t, p.doc, false))
	if err != nil {
		t.Fatal(err)
	}
	was, other := p.subject.Digest["sha256"], strings.Repeat("e", 64)
	figures := bytes.ReplaceAll(a.Figures.Payload, []byte(was), []byte(other))
	result := bytes.ReplaceAll(a.Result.Payload, []byte(was), []byte(other))
	result = bytes.ReplaceAll(result, []byte(engine.Digest(a.Figures.Payload)), []byte(engine.Digest(figures)))
	var forged attest.Attestation
	if forged.Result, err = attest.SignEnvelope(attest.PayloadType, result, p.key); err == nil {
		forged.Figures, err = attest.SignEnvelope(attest.PayloadType, figures, p.key)
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := forged.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestQ8_OnlyWhatWasAttestedIsReleased: measured evidence under a freeze, and
// one thing wrong at a time. Each fault is told, and what is not wrong passes.
func TestQ8_OnlyWhatWasAttestedIsReleased(t *testing.T) {
	t.Parallel()
	p := newPublication(t)
	good := p.sign(t, p.doc, false)
	simulated := p.copied(t, func(d *gate.Document) {
		d.Label, d.Evidence, d.Policy.Kind = "PASS (simulated)", evaluator.EvidenceSimulated, gate.KindSimulation
	})
	failed := p.copied(t, func(d *gate.Document) { d.Verdict.Verdict, d.Label, d.Exit = gate.Fail, "FAIL", exitFail })
	other := *p.manifest
	other.Name = "another"
	for _, tc := range []struct {
		name       string
		data       []byte
		doc        *gate.Document
		manifest   *freeze.Manifest
		at         time.Duration
		simulation bool
		fault      string // "" is none
		exit       int
	}{
		{"as signed", good, p.doc, p.manifest, 0, false, "", exitOK},
		{"a measured PASS where a simulated one would do", good, p.doc, p.manifest, 0, true, "", exitOK},
		{"a figure", good, p.copied(t, func(d *gate.Document) { d.Arms = append(d.Arms, gate.ArmDenominators{Arm: "x"}) }), p.manifest, 0, false, "the computed verdict differs at arms", exitFail},
		{"a trace", good, p.copied(t, func(d *gate.Document) { d.TraceSetDigest = "sha256:" + strings.Repeat("1", 64) }), p.manifest, 0, false, "differs at trace_set_digest: attested", exitFail},
		{"another campaign", good, p.copied(t, func(d *gate.Document) { d.Campaign.ID = "c_2" }), p.manifest, 0, false, "it is about campaign rel c_1, and rel c_2 was judged", exitFail},
		{"another policy", good, p.copied(t, func(d *gate.Document) { d.Policy.Digest = "sha256:" + strings.Repeat("2", 64) }), p.manifest, 0, false, "it is about a verdict by policy release, sha256:000", exitFail},
		{"the log lost the freeze", good, p.doc, nil, 0, false, "its manifest is needed", exitFail},
		{"another freeze", good, p.doc, &other, 0, false, "the manifest is f_", exitFail},
		{"a subject that was not frozen", p.forge(t), p.doc, p.manifest, 0, false, "is none of the subjects", exitFail},
		{"too late", good, p.doc, p.manifest, 24 * time.Hour, false, "it expired at 2026-12-02T00:00:00Z", exitFail},
		{"too early", good, p.doc, p.manifest, -time.Hour, false, "still to come", exitFail},
		{"of a simulation", p.sign(t, simulated, true), simulated, p.manifest, 0, false, "it is the result of a simulation", exitFail},
		{"of a simulation, which is allowed", p.sign(t, simulated, true), simulated, p.manifest, 0, true, "", exitOK},
		{"a FAIL", p.sign(t, failed, false), failed, p.manifest, 0, true, "it says FAILED, since the verdict is FAIL", exitFail},
		{"signed as a FAIL, computed as a PASS", p.sign(t, failed, false), p.doc, p.manifest, 0, false, "differs at exit: attested 1, computed 0", exitFail},
		{"no bytes", []byte{}, p.doc, p.manifest, 0, false, "not a canonical attestation", exitFail},
	} {
		q := releaseRequest{file: "a.jsonl", simulation: tc.simulation}
		q.data, q.at, q.subjects = tc.data, publicationTime.Add(tc.at), []attest.Resource{p.subject}
		q.trust = attest.Trust{Keys: []attest.PublicKey{p.key.Public()}, Threshold: 1}
		r, err := q.release(tc.doc, tc.manifest)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if r.OK != (tc.fault == "") || !strings.Contains(r.Fault, tc.fault) || r.OK != (r.Fault == "") || exitOf(tc.doc, r) != tc.exit {
			t.Errorf("%s: ok %v, exit %d, fault %q", tc.name, r.OK, exitOf(tc.doc, r), r.Fault)
		}
		if r.OK && (r.Result != "PASSED" || len(r.Keys) != 1 || r.Simulation != (tc.doc == simulated)) {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
	q := releaseRequest{file: "a.jsonl"}
	q.data, q.at, q.trust = p.forge(t), publicationTime, attest.Trust{Keys: []attest.PublicKey{p.key.Public()}, Threshold: 1}
	r, err := q.release(p.doc, p.manifest)
	if err != nil || r.OK || !strings.Contains(r.Fault, "what is released must be what was frozen") {
		t.Errorf("a subject outside the freeze that nobody named: %+v, %v", r, err)
	}
}

// releaseKeys are the keys of gate --json that a publication gate adds, as in
// shapes_test.go.
const releaseKeys = `
attestation.required bool; attestation.ok bool; attestation.fault string; attestation.file string; attestation.keys array; attestation.result string
attestation.predicate_type string; attestation.simulation bool; attestation.created string; attestation.valid_until string; attestation.released array`

// TestQ8_AReleaseLeavesTheVerdictAlone: gate --json of a publication gate is
// the verdict as ever, to the byte, but for the block and the exit code.
func TestQ8_AReleaseLeavesTheVerdictAlone(t *testing.T) {
	t.Parallel()
	p := newPublication(t)
	blocked := &reports.Release{Required: true, Fault: "x", Keys: []string{}, Released: []string{}}
	var out, plain bytes.Buffer
	if err := writeRelease(&out, formatJSON, p.doc, blocked); err != nil {
		t.Fatal(err)
	}
	if err := writeRelease(&plain, formatJSON, p.doc, nil); err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	for data, into := range map[*bytes.Buffer]*map[string]any{&out: &got, &plain: &want} {
		if err := json.Unmarshal(data.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	for _, keys := range []string{verdictHead, releaseKeys} {
		for _, m := range missing(any(got), keys) {
			t.Error(m)
		}
	}
	if got["exit"] != float64(exitFail) || want["exit"] != float64(exitOK) || want["attestation"] != nil {
		t.Errorf("exit %v, without a release %v, %v", got["exit"], want["exit"], want["attestation"])
	}
	delete(got, "attestation")
	got["exit"] = want["exit"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// verdictHead are some of the keys of a verdict.
const verdictHead = `schema.name string; exit number; campaign.id string; verdict string; label string; evidence string`
