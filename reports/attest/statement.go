package attest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// Types of in-toto documents.
const (
	// PayloadType is that of the payload of an envelope.
	PayloadType   = "application/vnd.in-toto+json"
	StatementType = "https://in-toto.io/Statement/v1"
	// PredicateTestResult is the result of measured evidence, or one that is not
	// PASSED of any other.
	PredicateTestResult = "https://in-toto.io/attestation/test-result/v0.1"
	// PredicateSimulation has the fields of a test result. Its name keeps a
	// PASSED of evidence that is not measured from being taken for a real one.
	PredicateSimulation = "https://github.com/agentrooms/qualify/attestation/simulation-result/v1"
	PredicateFigures    = "https://github.com/agentrooms/qualify/attestation/figures/v1"
)

// Result is the result of a test-result predicate.
type Result string

// Results.
const (
	Passed Result = "PASSED"
	Warned Result = "WARNED"
	Failed Result = "FAILED"
)

// ResultOf maps a verdict (Q8). What is no known verdict is FAILED.
func ResultOf(o gate.Outcome) Result {
	switch o {
	case gate.Pass:
		return Passed
	case gate.Inconclusive:
		return Warned
	case gate.Fail:
	}
	return Failed
}

// Resource is an in-toto ResourceDescriptor: something named by its digests.
type Resource struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"` // algorithm to hex
}

// Statement is an in-toto Statement v1.
type Statement[P any] struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     P          `json:"predicate"`
}

// TestResult is the predicate of test-result v0.1. The lists hold the ids of
// the policy's preconditions and rules.
type TestResult struct {
	Result        Result     `json:"result"`
	Configuration []Resource `json:"configuration"`
	PassedTests   []string   `json:"passedTests"`
	WarnedTests   []string   `json:"warnedTests"`
	FailedTests   []string   `json:"failedTests"`
}

// Figures is the predicate of PredicateFigures: all that a verdict says, and
// for how long its signer stands by it. Moments are UTC in RFC 3339 with whole
// seconds.
type Figures struct {
	Created    string         `json:"created"`
	ValidUntil string         `json:"valid_until"`
	Evidence   string         `json:"evidence"` // evidence class (DESIGN §9)
	Label      string         `json:"label"`    // the verdict as people read it
	Document   *gate.Document `json:"document"` // as qualify gate --json prints it
}

// Claim is what an attestation says.
type Claim struct {
	Document *gate.Document
	Subjects []Resource // what is released
	Created  time.Time
	Until    time.Time // no longer valid from here on
	// Simulation states the result as PredicateSimulation.
	Simulation bool
	// Manifest is the freeze that the document names; nil where it names none.
	Manifest *freeze.Manifest
}

// statements are the two payloads, in canonical JSON.
func (c *Claim) statements() (result, figures []byte, err error) {
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	d := c.Document
	subjects := sortedSubjects(c.Subjects)
	figures, err = engine.Canonical(Statement[Figures]{
		StatementType, subjects, PredicateFigures,
		Figures{c.Created.UTC().Format(time.RFC3339), c.Until.UTC().Format(time.RFC3339), d.Evidence, d.Label, d},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("statement of figures: %w", err)
	}
	result, err = resultStatement(subjects, d, c.Simulation, engine.Digest(figures))
	return result, figures, err
}

// check refuses claims that must not be signed.
func (c *Claim) check() error {
	if err := CheckSubjects(c.Subjects); err != nil {
		return err
	}
	if err := checkDocument(c.Document); err != nil {
		return err
	}
	if !c.Created.Equal(c.Created.Truncate(time.Second)) || !c.Until.Equal(c.Until.Truncate(time.Second)) || !c.Created.Before(c.Until) {
		return fmt.Errorf("%w: valid from %s to %s: want whole seconds, the end after the start", ErrStatement, c.Created, c.Until)
	}
	if c.Manifest != nil || c.Document.Freeze.ID != "" {
		return CheckFreeze(c.Manifest, c.Document, c.Subjects)
	}
	return nil
}

// resultStatement is the first statement: a function of the second. It refuses
// PASSED where the evidence does not carry it.
func resultStatement(subjects []Resource, d *gate.Document, simulation bool, figures string) ([]byte, error) {
	s := Statement[TestResult]{StatementType, subjects, PredicateTestResult, TestResult{
		Result: ResultOf(d.Verdict.Verdict), PassedTests: []string{}, WarnedTests: []string{}, FailedTests: []string{},
	}}
	measured := d.Evidence == evaluator.EvidenceMeasured
	switch {
	case simulation && measured:
		return nil, fmt.Errorf("%w: the evidence is measured; a result of simulation would belittle it", ErrRefused)
	case simulation:
		s.PredicateType = PredicateSimulation
	case s.Predicate.Result == Passed && !measured:
		return nil, fmt.Errorf("%w: the evidence is %s, so the result can be PASSED only as a result of simulation (attest sign --simulation)", ErrRefused, d.Evidence)
	case s.Predicate.Result == Passed && d.Freeze.ID == "":
		return nil, fmt.Errorf("%w: the verdict names no freeze, so nothing shows what passed", ErrRefused)
	}
	var err error
	if s.Predicate.Configuration, err = configuration(d, figures); err != nil {
		return nil, err
	}
	p := &s.Predicate
	put := func(id string, o gate.Outcome) {
		switch ResultOf(o) {
		case Passed:
			p.PassedTests = append(p.PassedTests, id)
		case Warned:
			p.WarnedTests = append(p.WarnedTests, id)
		case Failed:
			p.FailedTests = append(p.FailedTests, id)
		}
	}
	for i := range d.Preconditions {
		put(d.Preconditions[i].ID, d.Preconditions[i].Verdict)
	}
	for i := range d.Rules {
		put(d.Rules[i].ID, d.Rules[i].Verdict)
	}
	b, err := engine.Canonical(s)
	if err != nil {
		return nil, fmt.Errorf("statement of the result: %w", err)
	}
	return b, nil
}

// Names of the configuration.
const (
	configFreeze       = "freeze manifest"
	configRegistration = "registration"
	configPolicy       = "policy"
	configTraces       = "trace set"
	configCorpus       = "corpus"
	configPrices       = "prices"
	configFigures      = "statement of figures"
)

// configuration names by digest what the result depends on.
func configuration(d *gate.Document, figures string) ([]Resource, error) {
	var out []Resource
	for _, part := range []struct{ name, digest, prefix string }{
		{configFreeze, d.Freeze.ID, freeze.IDPrefix},
		{configRegistration, d.Campaign.Registration, "sha256:"},
		{configPolicy, d.Policy.Digest, "sha256:"},
		{configTraces, d.TraceSetDigest, "sha256:"},
		{configCorpus, d.Corpus.Digest, "sha256:"},
		{configPrices, d.Prices, "sha256:"},
		{configFigures, figures, ""},
	} {
		if part.digest == "" && part.name == configFreeze {
			continue
		}
		sum, ok := strings.CutPrefix(part.digest, part.prefix)
		if !ok || !isHex(sum, 64) {
			return nil, fmt.Errorf("%w: the %s of the verdict is %q, which is no digest of SHA-256", ErrStatement, part.name, part.digest)
		}
		out = append(out, Resource{part.name, map[string]string{"sha256": sum}})
	}
	return out, nil
}

// checkDocument finds what no run of the gate would have written.
func checkDocument(d *gate.Document) error {
	if d == nil {
		return fmt.Errorf("%w: there is no verdict document", ErrStatement)
	}
	want := gate.NewDocument(gate.Verdict{Verdict: d.Verdict.Verdict})
	switch {
	case d.Schema != want.Schema:
		return fmt.Errorf("%w: the verdict is a %s version %d; this version attests %s version %d", ErrStatement, d.Schema.Name, d.Schema.Version, want.Schema.Name, want.Schema.Version)
	case d.Verdict.Verdict != gate.Pass && d.Verdict.Verdict != gate.Fail && d.Verdict.Verdict != gate.Inconclusive:
		return fmt.Errorf("%w: the verdict is %q", ErrStatement, d.Verdict.Verdict)
	case d.Exit != want.Exit:
		return fmt.Errorf("%w: the verdict is %s with exit code %d", ErrStatement, d.Verdict.Verdict, d.Exit)
	case !strings.HasPrefix(d.Label+" (", string(d.Verdict.Verdict)+" (") || d.Evidence != evaluator.EvidenceMeasured && !strings.Contains(d.Label, "("+d.Evidence):
		return fmt.Errorf("%w: the verdict is %s on %s evidence, and its label says %q", ErrStatement, d.Verdict.Verdict, d.Evidence, d.Label)
	}
	for i := range d.Hypotheses {
		h := &d.Hypotheses[i]
		if want := d.Hypothesis(h.Text, h.Rules, h.Primary); h.Outcome != want.Outcome {
			return fmt.Errorf("%w: hypothesis %d is %s, and its rules say %s", ErrStatement, i+1, h.Outcome, want.Outcome)
		}
	}
	switch {
	case d.Verdict.Verdict != gate.Pass:
		return checkLossless(d)
	case d.Evidence != evaluator.EvidenceMeasured && d.Policy.Kind != gate.KindSimulation:
		return fmt.Errorf("%w: the verdict is PASS on %s evidence by a policy for measured evidence", ErrStatement, d.Evidence)
	}
	for i := range d.Rules {
		if r := &d.Rules[i]; r.Severity != gate.SeverityAdvisory && r.Verdict != gate.Pass {
			return fmt.Errorf("%w: the verdict is PASS, and rule %s is %s", ErrStatement, r.ID, r.Verdict)
		}
	}
	for i := range d.Preconditions {
		if p := &d.Preconditions[i]; p.Severity != gate.SeverityAdvisory && p.Verdict != gate.Pass {
			return fmt.Errorf("%w: the verdict is PASS, and precondition %s is %s", ErrStatement, p.ID, p.Verdict)
		}
	}
	return checkLossless(d)
}

// checkLossless finds a document that does not survive its own encoding, such
// as a seed of 2^63 or more, which canonical JSON rounds.
func checkLossless(d *gate.Document) error {
	b, err := engine.Canonical(d)
	if err != nil {
		return fmt.Errorf("%w: the verdict cannot be written as JSON: %w", ErrStatement, err)
	}
	if err := engine.DecodeCanonical(b, new(gate.Document)); err != nil {
		return fmt.Errorf("%w: the verdict cannot be read back as it was written (a seed of 2^63 or more?): %w", ErrStatement, err)
	}
	return nil
}

// digestSizes are the algorithms of subjects with the length of a digest in hex
// (in-toto DigestSet).
func digestSizes() map[string]int {
	return map[string]int{"sha256": 64, "sha384": 96, "sha512": 128, "gitCommit": 40, "dirHash": 64}
}

// Algorithms lists the digest algorithms that a subject may have.
func Algorithms() []string { return slices.Sorted(maps.Keys(digestSizes())) }

// CheckSubjects finds subjects without name or digest, two of one name, and
// digests that are none: ErrStatement.
func CheckSubjects(subjects []Resource) error {
	if len(subjects) == 0 {
		return fmt.Errorf("%w: there is no subject: name what is released by its digest", ErrStatement)
	}
	seen := map[string]bool{}
	for _, s := range subjects {
		if s.Name == "" || seen[s.Name] {
			return fmt.Errorf("%w: subject %q: names must be there and different", ErrStatement, s.Name)
		}
		seen[s.Name] = true
		if len(s.Digest) == 0 {
			return fmt.Errorf("%w: subject %q has no digest", ErrStatement, s.Name)
		}
		for _, alg := range slices.Sorted(maps.Keys(s.Digest)) {
			switch n, ok := digestSizes()[alg]; {
			case !ok:
				return fmt.Errorf("%w: subject %q: algorithm %q; known are %s", ErrStatement, s.Name, alg, strings.Join(Algorithms(), ", "))
			case !isHex(s.Digest[alg], n) && (alg != "gitCommit" || !isHex(s.Digest[alg], 64)): // a commit may be SHA-256
				return fmt.Errorf("%w: subject %q: its %s digest must be %d hex digits in lower case", ErrStatement, s.Name, alg, n)
			}
		}
	}
	return nil
}

func sortedSubjects(subjects []Resource) []Resource {
	out := slices.Clone(subjects)
	slices.SortFunc(out, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// isHex reports n hex digits in lower case.
func isHex(s string, n int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(s) == n && hex.EncodeToString(b) == s
}

// parseStatement reads a payload in canonical JSON. The type must be want.
func parseStatement[P any](payload []byte, want ...string) (*Statement[P], error) {
	var head struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStatement, err)
	}
	if head.Type != StatementType {
		return nil, fmt.Errorf("%w: its type is %q, not %s", ErrStatement, head.Type, StatementType)
	}
	if !slices.Contains(want, head.PredicateType) {
		return nil, fmt.Errorf("%w: its predicate is %q, not %s", ErrStatement, head.PredicateType, strings.Join(want, " or "))
	}
	s := new(Statement[P])
	if err := engine.DecodeCanonical(payload, s); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrStatement, head.PredicateType, err)
	}
	return s, nil
}
