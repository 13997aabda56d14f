package attest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// Attestation is the signed pair of statements about one verdict.
type Attestation struct {
	Result  *Envelope // Statement[TestResult]
	Figures *Envelope // Statement[Figures]
}

// Sign makes an attestation with one or more different keys. Errors are
// ErrRefused for what must not be said, ErrStatement for a claim that
// contradicts itself.
func Sign(c Claim, keys ...*PrivateKey) (*Attestation, error) {
	result, figures, err := c.statements()
	if err != nil {
		return nil, err
	}
	a := new(Attestation)
	if a.Result, err = SignEnvelope(PayloadType, result, keys...); err != nil {
		return nil, err
	}
	if a.Figures, err = SignEnvelope(PayloadType, figures, keys...); err != nil {
		return nil, err
	}
	return a, nil
}

// Countersign adds the signature of another key to both statements. A key that
// has signed already is ErrSignature, and nothing is changed. Whoever signs
// should have computed the verdict (SameVerdict).
func (a *Attestation) Countersign(k *PrivateKey) error {
	result, figures := a.Result.clone(), a.Figures.clone()
	if err := errors.Join(result.sign(k), figures.sign(k)); err != nil {
		return err
	}
	a.Result, a.Figures = result, figures
	return nil
}

func (e *Envelope) clone() *Envelope {
	return &Envelope{e.PayloadType, bytes.Clone(e.Payload), slices.Clone(e.Signatures)}
}

// Bytes is the attestation as a file.
func (a *Attestation) Bytes() ([]byte, error) {
	result, err := a.Result.Bytes()
	if err != nil {
		return nil, err
	}
	figures, err := a.Figures.Bytes()
	if err != nil {
		return nil, err
	}
	return append(result, figures...), nil
}

// Parse reads what Bytes wrote, and nothing else (ParseEnvelope): ErrFormat. It
// checks no signature.
func Parse(data []byte) (*Attestation, error) {
	first, second, _ := bytes.Cut(data, []byte("\n"))
	if len(first) == len(data) {
		return nil, fmt.Errorf("%w: it has no line end; an attestation is two lines", ErrFormat)
	}
	result, err := ParseEnvelope(data[:len(first)+1])
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	figures, err := ParseEnvelope(second)
	if err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	return &Attestation{result, figures}, nil
}

// Verified is what an attestation says, after everything about it was checked.
type Verified struct {
	Keys          []string // ids of the keys that signed both statements
	Subjects      []Resource
	PredicateType string // PredicateTestResult or PredicateSimulation
	Result        Result
	Configuration []Resource
	Created       time.Time
	Until         time.Time
	Document      *gate.Document
}

// skew is how far the clock of a signer may be ahead.
const skew = 5 * time.Minute

// Verify checks an attestation at a moment: the signatures first, then what
// Inspect checks, then the time. Errors are ErrSignature, ErrStatement,
// ErrRefused or ErrExpired; with ErrExpired alone the rest holds and is returned
// too. It does not compute the verdict: see SameVerdict.
func (a *Attestation) Verify(t Trust, at time.Time) (*Verified, error) {
	keys, err := a.Result.Verify(t)
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	same, err := a.Figures.Verify(t)
	if err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	if !slices.Equal(keys, same) {
		return nil, fmt.Errorf("%w: the two statements are signed by different keys", ErrSignature)
	}
	v, err := a.Inspect()
	if err != nil {
		return nil, err
	}
	v.Keys = keys
	return v, v.valid(at)
}

// Inspect checks everything but signatures and time: that both statements are
// canonical and sound in themselves (the document is one that a gate writes;
// PASSED only where the evidence carries it), and that the result follows from
// the figures, byte for byte. Keys is empty: nothing shows who says this.
// Errors are ErrStatement or ErrRefused.
func (a *Attestation) Inspect() (*Verified, error) {
	for i, e := range []*Envelope{a.Result, a.Figures} {
		if e.PayloadType != PayloadType {
			return nil, fmt.Errorf("line %d: %w: the payload is a %q, not %s", i+1, ErrStatement, e.PayloadType, PayloadType)
		}
	}
	result, err := parseStatement[TestResult](a.Result.Payload, PredicateTestResult, PredicateSimulation)
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	figures, err := parseStatement[Figures](a.Figures.Payload, PredicateFigures)
	if err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	v := &Verified{
		Subjects: figures.Subject, PredicateType: result.PredicateType, Result: result.Predicate.Result,
		Configuration: result.Predicate.Configuration, Document: figures.Predicate.Document,
	}
	if err := v.figures(&figures.Predicate); err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	if err := follows(a.Result.Payload, result, figures, engine.Digest(a.Figures.Payload)); err != nil {
		return nil, err
	}
	return v, nil
}

// figures checks the second statement in itself.
func (v *Verified) figures(f *Figures) error {
	if err := CheckSubjects(v.Subjects); err != nil {
		return err
	}
	if err := checkDocument(f.Document); err != nil {
		return err
	}
	if f.Evidence != f.Document.Evidence || f.Label != f.Document.Label {
		return fmt.Errorf("%w: evidence %q and verdict %q are not those of the document, %q and %q", ErrStatement, f.Evidence, f.Label, f.Document.Evidence, f.Document.Label)
	}
	var err error
	if v.Created, err = moment(f.Created); err != nil {
		return err
	}
	if v.Until, err = moment(f.ValidUntil); err != nil {
		return err
	}
	if !v.Created.Before(v.Until) {
		return fmt.Errorf("%w: it is valid from %s to %s, which is never", ErrStatement, f.Created, f.ValidUntil)
	}
	return nil
}

// moment reads a time in the one form that Figures writes.
func moment(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UTC().Format(time.RFC3339) != s {
		return time.Time{}, fmt.Errorf("%w: %q is no moment in UTC with whole seconds, as in 2026-11-30T12:00:00Z", ErrStatement, s)
	}
	return t.UTC(), nil
}

// follows builds the first statement from the second and wants the same bytes.
func follows(payload []byte, got *Statement[TestResult], f *Statement[Figures], digest string) error {
	d := f.Predicate.Document
	if want := ResultOf(d.Verdict.Verdict); got.Predicate.Result != want {
		return fmt.Errorf("%w: the result is %s; the verdict of the figures is %s, which is %s", ErrStatement, got.Predicate.Result, d.Verdict.Verdict, want)
	}
	want, err := resultStatement(sortedSubjects(f.Subject), d, got.PredicateType == PredicateSimulation, digest)
	if err != nil {
		return err
	}
	if bytes.Equal(want, payload) {
		return nil
	}
	for _, r := range got.Predicate.Configuration {
		if r.Name == configFigures && r.Digest["sha256"] != digest {
			return fmt.Errorf("%w: the result belongs to figures %s, and these are %s", ErrStatement, r.Digest["sha256"], digest)
		}
	}
	key, is, should := firstDifference(payload, want)
	return fmt.Errorf("%w: the result is not the one that follows from the figures: %s is %s, not %s", ErrStatement, key, is, should)
}

// valid compares the moment with the time the attestation is good for.
func (v *Verified) valid(at time.Time) error {
	switch {
	case at.Before(v.Created.Add(-skew)):
		return fmt.Errorf("%w: it was made at %s, which is still to come at %s: check the clock", ErrExpired, v.Created.Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	case !at.Before(v.Until):
		return fmt.Errorf("%w: it expired at %s; sign the verdict again, or verify for a moment before that", ErrExpired, v.Until.Format(time.RFC3339))
	}
	return nil
}

// SameVerdict compares the attested document with one computed anew, byte for
// byte in canonical JSON, but for what the attested one lists as outside its
// identity. The error, ErrStatement, names the first key that differs.
func SameVerdict(attested, computed *gate.Document) error {
	if was, is := attested.Policy.Digest, computed.Policy.Digest; was != is { // the usual cause, named first
		return fmt.Errorf("%w: attested by policy %s, %s; computed by %s, %s", ErrStatement, attested.Policy.Name, was, computed.Policy.Name, is)
	}
	if !slices.Equal(attested.Outside, computed.Outside) {
		return fmt.Errorf("%w: outside_identity: attested %v, computed %v", ErrStatement, attested.Outside, computed.Outside)
	}
	a, b := *attested, *computed
	for _, name := range attested.Outside {
		switch name {
		case "tool":
			a.Tool, b.Tool = "", ""
		case "budget":
			a.Budget, b.Budget = gate.BudgetProof{}, gate.BudgetProof{}
		case "log":
			a.Freeze.Log, b.Freeze.Log = nil, nil
		default:
			return fmt.Errorf("%w: outside_identity names %q, which no gate leaves out", ErrStatement, name)
		}
	}
	was, err := engine.Canonical(a)
	if err != nil {
		return err
	}
	is, err := engine.Canonical(b)
	if err != nil {
		return err
	}
	if bytes.Equal(was, is) {
		return nil
	}
	key, old, now := firstDifference(was, is)
	return fmt.Errorf("%w: the computed verdict differs at %s: attested %s, computed %s", ErrStatement, key, old, now)
}
