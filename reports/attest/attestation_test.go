package attest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// TestQ8_EveryBitOfAnAttestationCounts flips each bit of a file about a verdict
// without rules; the file as it was, read and written again, verifies.
func TestQ8_EveryBitOfAnAttestationCounts(t *testing.T) {
	t.Parallel()
	k := signer(t, 1)
	full, d := document(t), gate.NewDocument(gate.Verdict{Verdict: gate.Inconclusive, Evidence: "simulated", Label: "INCONCLUSIVE (simulated)"})
	d.Campaign.Registration, d.Policy.Digest, d.TraceSetDigest = full.Campaign.Registration, full.Policy.Digest, full.TraceSetDigest
	d.Corpus.Digest, d.Prices = full.Corpus.Digest, full.Prices
	good := fileOf(t, signed(t, claimOf(d), k))
	who := trust(k)
	parsed, err := Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	again := fileOf(t, parsed)
	if !bytes.Equal(good, again) {
		t.Fatal("encoding again gives other bytes")
	}
	if _, err := check(again, who, clock); err != nil {
		t.Fatal(err)
	}
	flipEach(t, good, func(data []byte) error {
		_, err := check(data, who, clock)
		return err
	})
}

func TestQ8_AttestationsAreGoodForATime(t *testing.T) {
	t.Parallel()
	k := signer(t, 1)
	data := fileOf(t, signed(t, claimOf(document(t)), k))
	for _, tc := range []struct {
		name  string
		at    time.Time
		words string
	}{
		{"when it was signed", clock, ""},
		{"a clock a little behind", clock.Add(-5 * time.Minute), ""},
		{"long before", clock.Add(-5*time.Minute - time.Second), "still to come"},
		{"the last second", clock.Add(24*time.Hour - time.Second), ""},
		{"the moment it ends", clock.Add(24 * time.Hour), "expired at 2026-12-01T12:00:00Z"},
		{"in another zone", clock.Add(24 * time.Hour).In(time.FixedZone("x", 3600)), "expired"},
		{"years later", clock.AddDate(10, 0, 0), "expired"},
		{"no time", time.Time{}, "still to come"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, err := check(data, trust(k), tc.at)
			if tc.words != "" {
				wantError(t, err, ErrExpired, tc.words)
				if v == nil {
					t.Error("what it says is not told")
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestQ8_TwoPeopleMustSign: policies of two signatures over whole attestations.
func TestQ8_TwoPeopleMustSign(t *testing.T) {
	t.Parallel()
	a, b := signer(t, 1), signer(t, 2)
	one := signed(t, claimOf(document(t)), a)
	_, err := one.Verify(trust(a, b), clock)
	wantError(t, err, ErrSignature, "1 of the given keys signed, 2 must")
	_, err = one.Verify(trust(a, a), clock)
	wantError(t, err, ErrSignature, "2 signatures wanted of 1 different keys")
	wantError(t, one.Countersign(a), ErrSignature, "has signed already")
	if len(one.Result.Signatures) != 1 || len(one.Figures.Signatures) != 1 {
		t.Fatal("a refused signature was added")
	}
	half := *one
	half.Result = one.Result.clone()
	if err := half.Result.sign(b); err != nil {
		t.Fatal(err)
	}
	any := Trust{Keys: trust(a, b).Keys}
	_, err = half.Verify(any, clock)
	wantError(t, err, ErrSignature, "different keys")

	if err := one.Countersign(b); err != nil {
		t.Fatal(err)
	}
	v, err := check(fileOf(t, one), trust(a, b), clock)
	if err != nil || len(v.Keys) != 2 {
		t.Errorf("both signed: %v", err)
	}
	both := fileOf(t, signed(t, claimOf(document(t)), b, a))
	if !bytes.Equal(both, fileOf(t, one)) {
		t.Error("the order of signing shows in the file")
	}
}

func TestQ8_FilesAreTwoLines(t *testing.T) {
	t.Parallel()
	good := string(fileOf(t, signed(t, claimOf(document(t)), signer(t, 1))))
	lines := strings.SplitAfter(good, "\n")
	for _, tc := range []struct{ name, text, words string }{
		{"empty", "", "no line end"},
		{"one line without end", strings.TrimSuffix(lines[0], "\n"), "no line end"},
		{"the result alone", lines[0], "line 2"},
		{"the last line end cut off", strings.TrimSuffix(good, "\n"), "line 2"},
		{"a line too many", good + lines[1], "line 2"},
		{"an empty line", good + "\n", "line 2"},
		{"an empty line before", "\n" + good, "line 1"},
		{"with carriage returns", strings.ReplaceAll(good, "\n", "\r\n"), "line 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tc.text))
			wantError(t, err, ErrFormat, tc.words)
		})
	}
}

// TestQ8_SignedNonsenseIsFound: statements that a trusted key did sign, and
// that no gate and no signer of this package would have written.
func TestQ8_SignedNonsenseIsFound(t *testing.T) {
	t.Parallel()
	k := signer(t, 1)
	base := claimOf(document(t))
	result, figures, err := base.statements()
	if err != nil {
		t.Fatal(err)
	}
	other := claimOf(document(t))
	other.Document.Seed = 8
	_, otherFigures, err := other.statements()
	if err != nil {
		t.Fatal(err)
	}
	passing := claimOf(verdictOn(t, "simulated", gate.KindSimulation, passes))
	passing.Simulation = true
	simulated, simulatedFigures, err := passing.statements()
	if err != nil {
		t.Fatal(err)
	}
	// edit changes the predicate of the figures, and the digest in the result.
	edit := func(from, to string) (r, f string) {
		t.Helper()
		if !bytes.Contains(figures, []byte(from)) {
			t.Fatalf("%s is not in %s", from, figures)
		}
		f = strings.Replace(string(figures), from, to, 1)
		return strings.Replace(string(result), engine.Digest(figures), engine.Digest([]byte(f)), 1), f
	}
	in := func(text []byte, from, to string) string {
		t.Helper()
		if !bytes.Contains(text, []byte(from)) {
			t.Fatalf("%s is not in %s", from, text)
		}
		return strings.Replace(string(text), from, to, 1)
	}
	pair := func(r, f string) [2]string { return [2]string{r, f} }
	for _, tc := range []struct {
		name  string
		lines [2]string
		kind  error
		words string
	}{
		{"as it was", pair(string(result), string(figures)), nil, ""},
		{"swapped", pair(string(figures), string(result)), ErrStatement, "line 1"},
		{"twice the result", pair(string(result), string(result)), ErrStatement, "line 2"},
		{"figures of another campaign", pair(string(result), string(otherFigures)), ErrStatement, "the result belongs to figures"},
		{"a better result", pair(in(result, `"WARNED"`, `"PASSED"`), string(figures)), ErrStatement, "the result is PASSED"},
		{"simulation called a test", pair(in(simulated, PredicateSimulation, PredicateTestResult), string(simulatedFigures)), ErrRefused, "only as a result of simulation"},
		{"another list of tests", pair(in(result, `"warnedTests":["some"]`, `"warnedTests":[]`), string(figures)), ErrStatement, "follows from the figures"},
		{"other traces", pair(in(result, sum("4"), sum("9")), string(figures)), ErrStatement, "follows from the figures"},
		{"another subject", pair(in(result, sum("a"), sum("f")), string(figures)), ErrStatement, "follows from the figures"},
		{"unknown predicate", pair(in(result, "test-result/v0.1", "test-result/v0.2"), string(figures)), ErrStatement, "test-result/v0.2"},
		{"another statement type", pair(in(result, "Statement/v1", "Statement/v0.1"), string(figures)), ErrStatement, "Statement/v0.1"},
		{"unknown field of a statement", pair(in(result, `{"_type"`, `{"Note":1,"_type"`), string(figures)), ErrStatement, `unknown field "Note"`},
		{"unknown field of a result", pair(in(result, `"result":`, `"resulx":1,"result":`), string(figures)), ErrStatement, `unknown field "resulx"`},
		{"key twice", pair(in(result, `"result":`, `"result":"PASSED","result":`), string(figures)), ErrStatement, `"result" twice`},
		{"space", pair(in(result, `,"subject"`, `, "subject"`), string(figures)), ErrStatement, "canonical form"},
		{"no JSON", pair("x", string(figures)), ErrStatement, "invalid character"},
		{"unknown field of the verdict", pair(edit(`"estimand"`, `"estimane":1,"estimand"`)), ErrStatement, `unknown field "estimane"`},
		{"no document", pair(edit(string(mustJSON(t, base.Document)), "null")), ErrStatement, "no verdict document"},
		{"another evidence class", pair(edit(`"evidence":"simulated","label"`, `"evidence":"measured","label"`)), ErrStatement, `evidence "measured"`},
		{"an exit code for it", pair(edit(`"exit":2`, `"exit":0`)), ErrStatement, "exit code 0"},
		{"a moment in another form", pair(edit(`"2026-11-30T12:00:00Z"`, `"2026-11-30T13:00:00+01:00"`)), ErrStatement, "no moment in UTC"},
		{"no end", pair(edit(`"valid_until":"2026-12-01T12:00:00Z"`, `"valid_until":""`)), ErrStatement, "no moment in UTC"},
		{"valid never", pair(edit(`"2026-12-01T12:00:00Z"`, `"2026-11-01T12:00:00Z"`)), ErrStatement, "which is never"},
		{"subject without a digest", pair(edit(`{"sha256":"`+sum("a")+`"}`, "{}")), ErrStatement, "has no digest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := sign(t, k, PayloadType, tc.lines[0], tc.lines[1])
			_, err := check(fileOf(t, a), trust(k), clock)
			if tc.kind == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, tc.kind, tc.words)
		})
	}
	_, err = check(fileOf(t, sign(t, k, "application/json", string(result), string(figures))), trust(k), clock)
	wantError(t, err, ErrStatement, `the payload is a "application/json"`)
	// Signatures come first: what nobody trusted signed is not even parsed.
	_, err = check(fileOf(t, sign(t, signer(t, 9), PayloadType, "x", "y")), trust(k), clock)
	wantError(t, err, ErrSignature, "none of those given")
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := engine.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sign(t *testing.T, k *PrivateKey, kind, result, figures string) *Attestation {
	t.Helper()
	var a Attestation
	var err error
	if a.Result, err = SignEnvelope(kind, []byte(result), k); err == nil {
		a.Figures, err = SignEnvelope(kind, []byte(figures), k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestQ8_AComputedVerdictIsTheSameOrTheDifferenceIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(d *gate.Document)
		words  string
	}{
		{"nothing", func(*gate.Document) {}, ""},
		{"another tool", func(d *gate.Document) { d.Tool = "x" }, ""},
		{"a better verdict", func(d *gate.Document) { d.Verdict.Verdict = gate.Pass }, `verdict: attested "INCONCLUSIVE", computed "PASS"`},
		{"a figure", func(d *gate.Document) { n := evaluator.Num(0.25); d.Rules[0].Figure.Value = &n }, "rules[0].figure.value: attested 0.5, computed 0.25"},
		{"a figure less", func(d *gate.Document) { d.Rules[0].Figure.Value = nil }, "rules[0].figure.value: attested 0.5, computed null"},
		{"a rule less", func(d *gate.Document) { d.Rules = d.Rules[:0] }, "rules: attested 1 entries, computed 0 entries"},
		{"other traces", func(d *gate.Document) { d.TraceSetDigest = "sha256:" + sum("e") }, "trace_set_digest"},
		{"another policy", func(d *gate.Document) { d.Policy.Digest = "sha256:" + sum("e") }, "computed by p, sha256:eeee"},
		{"one micro", func(d *gate.Document) { d.Budget.Charged++ }, "budget.charged_micros: attested 4999999, computed 5000000"},
		{"more left out", func(d *gate.Document) { d.Outside = append(d.Outside, "budget") }, "outside_identity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			attested, computed := document(t), document(t)
			tc.change(computed)
			err := SameVerdict(attested, computed)
			if tc.words != "" {
				wantError(t, err, ErrStatement, tc.words)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	a, b := document(t), document(t)
	a.Outside, b.Outside = evaluator.OutsideIdentity{"tool", "budget"}, evaluator.OutsideIdentity{"tool", "budget"}
	b.Budget.Charged++
	if err := SameVerdict(a, b); err != nil {
		t.Errorf("an account that others draw on: %v", err)
	}
	a.Outside, b.Outside = evaluator.OutsideIdentity{"verdict"}, evaluator.OutsideIdentity{"verdict"}
	wantError(t, SameVerdict(a, b), ErrStatement, `names "verdict"`)
}

// TestQ8_DocumentsSurviveTheStatement: what is signed is what qualify gate
// --json prints, value for value.
func TestQ8_DocumentsSurviveTheStatement(t *testing.T) {
	t.Parallel()
	k := signer(t, 1)
	for _, rule := range []string{passes, fails, undecided, "limit: 0.9, bound: lower95"} {
		d := verdictOn(t, "simulated", gate.KindMeasured, rule)
		if strings.Contains(rule, "0.9") {
			d.DroppedTriples = append(d.DroppedTriples, "c0/1", "<\u2028>")
		}
		v, err := check(fileOf(t, signed(t, claimOf(d), k)), trust(k), clock)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(v.Document)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s: attested\n%s\nread back\n%s", rule, want, got)
		}
	}
}
