package attest

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

func TestQ8_AnAttestationSaysWhatTheVerdictSays(t *testing.T) {
	t.Parallel()
	k := signer(t, 1)
	d, m := frozen(t, document(t))
	c := claimOf(d)
	c.Subjects, c.Manifest = Subjects(m), m
	data := fileOf(t, signed(t, c, k))
	v, err := check(data, trust(k), clock.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := &Verified{
		Keys: []string{k.Public().ID()}, PredicateType: PredicateTestResult, Result: Warned,
		Subjects: []Resource{{"qualify linux/amd64", map[string]string{"sha256": sum("b")}}, {"qualify linux/arm64", map[string]string{"sha256": sum("d")}}},
		Created:  clock, Until: clock.Add(24 * time.Hour), Document: d,
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("%d lines", len(lines)-1)
	}
	want.Configuration = []Resource{
		{"freeze manifest", map[string]string{"sha256": strings.TrimPrefix(d.Freeze.ID, "f_")}},
		{"registration", map[string]string{"sha256": sum("1")}},
		{"policy", map[string]string{"sha256": strings.TrimPrefix(d.Policy.Digest, "sha256:")}},
		{"trace set", map[string]string{"sha256": sum("4")}},
		{"corpus", map[string]string{"sha256": sum("5")}},
		{"prices", map[string]string{"sha256": sum("3")}},
		{"statement of figures", map[string]string{"sha256": engine.Digest(payload(t, lines[1]))}},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var s map[string]any
	if err := json.Unmarshal(payload(t, lines[0]), &s); err != nil {
		t.Fatal(err)
	}
	p, ok := s["predicate"].(map[string]any)
	if !ok || s["_type"] != "https://in-toto.io/Statement/v1" || s["predicateType"] != "https://in-toto.io/attestation/test-result/v0.1" || p["result"] != "WARNED" {
		t.Errorf("statement %v", s)
	}
	if diff := cmp.Diff([]any{"budget_proof"}, p["passedTests"]); diff != "" {
		t.Errorf("passedTests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"some"}, p["warnedTests"]); diff != "" {
		t.Errorf("warnedTests (-want +got):\n%s", diff)
	}
	again := fileOf(t, signed(t, c, k))
	if diff := cmp.Diff(string(data), string(again)); diff != "" {
		t.Error("signing twice gives two files")
	}
}

// payload is the signed content of a line.
func payload(t *testing.T, line string) []byte {
	t.Helper()
	var e struct{ Payload string }
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQ8_ResultsOfVerdicts: what each verdict becomes by evidence and predicate,
// and what is refused.
func TestQ8_ResultsOfVerdicts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, evidence   string
		kind             gate.Kind
		rule             string
		simulation, bare bool // bare: without a freeze
		want             Result
		refused          string
	}{
		{"measured PASS", "measured", gate.KindMeasured, passes, false, false, Passed, ""},
		{"measured INCONCLUSIVE", "measured", gate.KindMeasured, undecided, false, false, Warned, ""},
		{"measured FAIL", "measured", gate.KindMeasured, fails, false, false, Failed, ""},
		{"measured PASS without a freeze", "measured", gate.KindMeasured, passes, false, true, "", "no freeze"},
		{"measured FAIL without a freeze", "measured", gate.KindMeasured, fails, false, true, Failed, ""},
		{"measured as simulation", "measured", gate.KindMeasured, passes, true, false, "", "evidence is measured"},
		{"simulated by a policy for measured", "simulated", gate.KindMeasured, passes, false, true, Warned, ""},
		{"simulated PASS", "simulated", gate.KindSimulation, passes, false, true, "", "only as a result of simulation"},
		{"simulated PASS, frozen", "simulated", gate.KindSimulation, passes, false, false, "", "only as a result of simulation"},
		{"simulated PASS as simulation", "simulated", gate.KindSimulation, passes, true, true, Passed, ""},
		{"simulated FAIL", "simulated", gate.KindSimulation, fails, false, true, Failed, ""},
		{"simulated FAIL as simulation", "simulated", gate.KindSimulation, fails, true, true, Failed, ""},
		{"checks PASS", "deterministic check", gate.KindSimulation, passes, false, true, "", "only as a result of simulation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := claimOf(verdictOn(t, tc.evidence, tc.kind, tc.rule))
			c.Simulation = tc.simulation
			if !tc.bare {
				c.Document, c.Manifest = frozen(t, c.Document)
				c.Subjects = Subjects(c.Manifest)
			}
			a, err := Sign(c, signer(t, 1))
			if tc.refused != "" {
				wantError(t, err, ErrRefused, tc.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v, err := check(fileOf(t, a), trust(signer(t, 1)), clock)
			if err != nil {
				t.Fatal(err)
			}
			kind := PredicateTestResult
			if tc.simulation {
				kind = PredicateSimulation
			}
			if v.Result != tc.want || v.PredicateType != kind {
				t.Errorf("%s %s, want %s %s", v.Result, v.PredicateType, tc.want, kind)
			}
		})
	}
	if r := ResultOf("PASS?"); r != Failed {
		t.Errorf("an unknown verdict is %s", r)
	}
}

func TestQ8_BadClaimsAreNotSigned(t *testing.T) {
	t.Parallel()
	const passed = "PASS (simulated)"
	for _, tc := range []struct {
		name   string
		change func(c *Claim)
		kind   error
		words  string
	}{
		{"no document", func(c *Claim) { c.Document = nil }, ErrStatement, "no verdict document"},
		{"another schema", func(c *Claim) { c.Document.Schema.Version = 2 }, ErrStatement, "version 2"},
		{"unknown verdict", func(c *Claim) { c.Document.Verdict.Verdict = "MAYBE" }, ErrStatement, `"MAYBE"`},
		{"a label that flatters", func(c *Claim) { c.Document.Label = "PASS" }, ErrStatement, `its label says "PASS"`},
		{"a label without the evidence", func(c *Claim) { c.Document.Label = "INCONCLUSIVE" }, ErrStatement, "on simulated evidence"},
		{"another exit code", func(c *Claim) { c.Document.Exit = 0 }, ErrStatement, "exit code 0"},
		{"a rule that did not pass", func(c *Claim) {
			c.Document.Verdict.Verdict, c.Document.Exit, c.Document.Policy.Kind, c.Document.Label = gate.Pass, 0, gate.KindSimulation, passed
		}, ErrStatement, "rule some is INCONCLUSIVE"},
		{"a PASS by the wrong policy", func(c *Claim) { c.Document.Verdict.Verdict, c.Document.Exit, c.Document.Label = gate.Pass, 0, passed }, ErrStatement, "policy for measured evidence"},
		{"a precondition that did not hold", func(c *Claim) {
			d := verdictOn(t, "simulated", gate.KindSimulation, passes)
			d.Preconditions[0].Verdict = gate.Fail
			c.Document, c.Simulation = d, true
		}, ErrStatement, "precondition budget_proof is FAIL"},
		{"a figure that is none", func(c *Claim) { n := evaluator.Num(math.NaN()); c.Document.Rules[0].Figure.Value = &n }, ErrStatement, "cannot be written"},
		{"a seed that JSON rounds", func(c *Claim) { c.Document.Seed = math.MaxUint64 }, ErrStatement, "2^63"},
		{"no registration", func(c *Claim) { c.Document.Campaign.Registration = "" }, ErrStatement, "registration"},
		{"a digest that is none", func(c *Claim) { c.Document.TraceSetDigest = "sha256:" + sum("G") }, ErrStatement, "trace set"},
		{"no subject", func(c *Claim) { c.Subjects = nil }, ErrStatement, "no subject"},
		{"subject without name", func(c *Claim) { c.Subjects[0].Name = "" }, ErrStatement, `subject ""`},
		{"subject twice", func(c *Claim) { c.Subjects = append(c.Subjects, c.Subjects[0]) }, ErrStatement, "different"},
		{"subject without digest", func(c *Claim) { c.Subjects[0].Digest = nil }, ErrStatement, "no digest"},
		{"subject by MD5", func(c *Claim) { c.Subjects[0].Digest = map[string]string{"md5": strings.Repeat("a", 32)} }, ErrStatement, `"md5"`},
		{"digest in capitals", func(c *Claim) { c.Subjects[0].Digest["sha256"] = sum("A") }, ErrStatement, "lower case"},
		{"digest cut", func(c *Claim) { c.Subjects[0].Digest["sha256"] = sum("a")[1:] }, ErrStatement, "64 hex digits"},
		{"never valid", func(c *Claim) { c.Until = c.Created }, ErrStatement, "the end after the start"},
		{"parts of a second", func(c *Claim) { c.Created = c.Created.Add(1) }, ErrStatement, "whole seconds"},
		{"a freeze without its manifest", func(c *Claim) { c.Document, _ = frozen(t, c.Document) }, ErrRefused, "manifest is needed"},
		{"a manifest without a freeze", func(c *Claim) { c.Manifest = manifest(t) }, ErrRefused, "without a freeze"},
		{"another manifest", func(c *Claim) {
			c.Document, c.Manifest = frozen(t, c.Document)
			c.Manifest.Name = "other"
		}, ErrRefused, "the manifest is f_"},
		{"a subject that was not frozen", func(c *Claim) { c.Document, c.Manifest = frozen(t, c.Document) }, ErrRefused, "must be what was frozen"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := claimOf(document(t))
			tc.change(&c)
			_, err := Sign(c, signer(t, 1))
			wantError(t, err, tc.kind, tc.words)
		})
	}
}

func TestQ8_SubjectsAreWhatWasFrozen(t *testing.T) {
	t.Parallel()
	d, m := frozen(t, document(t))
	for _, tc := range []struct {
		name    string
		digest  map[string]string
		covered bool
	}{
		{"a binary", map[string]string{"sha256": sum("b")}, true},
		{"the commit it was built from", map[string]string{"gitCommit": strings.Repeat("c", 40)}, true},
		{"both", map[string]string{"sha256": sum("b"), "gitCommit": strings.Repeat("c", 40)}, true},
		{"one of two", map[string]string{"sha256": sum("b"), "gitCommit": strings.Repeat("a", 40)}, false},
		{"a commit with changes on top", map[string]string{"gitCommit": strings.Repeat("e", 40)}, false},
		{"the tree", map[string]string{"dirHash": hexOf(t, m.Trees[0].H1)}, true},
		{"the tree under another algorithm", map[string]string{"sha256": hexOf(t, m.Trees[0].H1)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := CheckFreeze(m, d, []Resource{{"x", tc.digest}})
			if !tc.covered {
				wantError(t, err, ErrRefused, "must be what was frozen")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	twice := Subjects(&freeze.Manifest{Binaries: []freeze.Binary{{Platform: "a/b", SHA256: "1"}, {Platform: "a/b", SHA256: "2"}}})
	if len(twice) != 2 || twice[0].Name == twice[1].Name {
		t.Errorf("two builds for one platform: %v", twice)
	}
}

func hexOf(t *testing.T, h1 string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h1, "h1:"))
	if err != nil {
		t.Fatal(err)
	}
	const digits = "0123456789abcdef"
	var out strings.Builder
	for _, c := range b {
		out.WriteByte(digits[c>>4])
		out.WriteByte(digits[c&15])
	}
	return out.String()
}
