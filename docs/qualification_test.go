package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/attest"
)

// TestQ8_PublishedQualificationsHold verifies what stands in docs/qualification
// beside each page: the signature and both statements, at the moment they were
// made; the seal log; and that log, freeze and page belong to the statement.
// What follows from the bundle is for the script to show, at the commit that the
// page names.
func TestQ8_PublishedQualificationsHold(t *testing.T) {
	t.Parallel()
	envelopes, err := filepath.Glob("qualification/*.intoto.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if len(envelopes) == 0 {
		t.Fatal("docs/qualification holds no attestation")
	}
	for _, path := range envelopes {
		base := strings.TrimSuffix(path, ".intoto.jsonl")
		t.Run(filepath.Base(base), func(t *testing.T) {
			t.Parallel()
			key, err := attest.ParsePublic([]byte(readPage(t, base+".pub")))
			if err != nil {
				t.Fatal(err)
			}
			signed, err := attest.Parse([]byte(readPage(t, path)))
			if err != nil {
				t.Fatal(err)
			}
			said, err := signed.Inspect()
			if err != nil {
				t.Fatal(err)
			}
			v, err := signed.Verify(attest.Trust{Keys: []attest.PublicKey{key}}, said.Created)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := freeze.ParseRows([]byte(readPage(t, base+".seal.jsonl")))
			if err != nil {
				t.Fatal(err)
			}
			log := freeze.VerifyLog(rows)
			for _, f := range log.Faults {
				t.Errorf("seal log: %s", f)
			}
			holdsQualification(t, v, rows, &log, readPage(t, base+".md"))
		})
	}
}

func holdsQualification(t *testing.T, v *attest.Verified, rows []freeze.Row, log *freeze.Verification, page string) {
	t.Helper()
	d := v.Document
	if l := d.Freeze.Log; l == nil || l.Rows < 1 || l.Rows > len(rows) || rows[l.Rows-1].Digest != l.Head {
		t.Errorf("the seal log does not go on from the attested head: %+v of %d rows", l, len(rows))
	}
	if n := freeze.HoldoutOf(rows, d.Campaign.ID).Openings; d.Freeze.Openings == nil || *d.Freeze.Openings != n {
		t.Errorf("the seal log has %d openings, the verdict says %v", n, d.Freeze.Openings)
	}
	if err := attest.CheckFreeze(log.Manifest(d.Freeze.ID), d, v.Subjects); err != nil {
		t.Error(err)
	}
	if v.PredicateType != attest.PredicateSimulation {
		t.Errorf("a simulated qualification is stated as %s", v.PredicateType)
	}
	for _, words := range []string{"**Verdict: " + d.Label + "**", "`" + d.Freeze.ID + "`", d.TraceSetDigest, d.Campaign.ID, "The holdout had been seen before"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not say %q", words)
		}
	}
}
