package attest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Errors of this package. What a verification finds wrong wraps one of them.
var (
	// ErrFormat means bytes that are no attestation in canonical form.
	ErrFormat = errors.New("not a canonical attestation")
	// ErrSignature means signatures that are missing, wrong, or too few.
	ErrSignature = errors.New("signature")
	// ErrStatement means signed statements that contradict themselves, each
	// other, or what they are compared with.
	ErrStatement = errors.New("statement")
	// ErrExpired means an attestation that is not good at the moment asked for.
	ErrExpired = errors.New("not valid now")
	// ErrRefused means a statement that this package does not make, such as
	// PASSED for simulated evidence.
	ErrRefused = errors.New("refused")
)

// Envelope is a DSSE envelope: a payload with the signatures over it.
type Envelope struct {
	PayloadType string
	Payload     []byte
	Signatures  []Signature // sorted by key id, each id once
}

// Signature is one signature of an envelope over PAE.
type Signature struct {
	KeyID string // see PublicKey.ID
	Sig   []byte
}

// wireEnvelope and wireSignature are an envelope as JSON.
type wireEnvelope struct {
	Payload     string          `json:"payload"`
	PayloadType string          `json:"payloadType"`
	Signatures  []wireSignature `json:"signatures"`
}

type wireSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// PAE is the pre-authentication encoding of DSSE v1: the bytes that are signed.
func PAE(payloadType string, payload []byte) []byte {
	out := make([]byte, 0, len(payloadType)+len(payload)+48)
	out = append(out, "DSSEv1 "...)
	out = strconv.AppendInt(out, int64(len(payloadType)), 10)
	out = append(append(append(out, ' '), payloadType...), ' ')
	out = strconv.AppendInt(out, int64(len(payload)), 10)
	return append(append(out, ' '), payload...)
}

// SignEnvelope signs a payload with one or more different keys.
func SignEnvelope(payloadType string, payload []byte, keys ...*PrivateKey) (*Envelope, error) {
	e := &Envelope{PayloadType: payloadType, Payload: bytes.Clone(payload)}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: no key to sign with", ErrSignature)
	}
	for _, k := range keys {
		if err := e.sign(k); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// sign adds a signature. A key that has signed already is ErrSignature.
func (e *Envelope) sign(k *PrivateKey) error {
	id := k.Public().ID()
	at, found := slices.BinarySearchFunc(e.Signatures, id, func(s Signature, id string) int { return strings.Compare(s.KeyID, id) })
	if found {
		return fmt.Errorf("%w: key %s has signed already; a second signature needs another key", ErrSignature, id)
	}
	e.Signatures = slices.Insert(e.Signatures, at, Signature{id, k.sign(PAE(e.PayloadType, e.Payload))})
	return nil
}

// Bytes is the envelope as canonical JSON with a line end.
func (e *Envelope) Bytes() ([]byte, error) {
	w := wireEnvelope{base64.StdEncoding.EncodeToString(e.Payload), e.PayloadType, make([]wireSignature, 0, len(e.Signatures))}
	for _, s := range e.Signatures {
		w.Signatures = append(w.Signatures, wireSignature{s.KeyID, base64.StdEncoding.EncodeToString(s.Sig)})
	}
	b, err := engine.Canonical(w)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	return append(b, '\n'), nil
}

// ParseEnvelope reads what Bytes wrote. Everything else is ErrFormat: another
// order or spacing, a key twice, an unknown field, a missing line end, base64
// in the alphabet for URLs, with line breaks or with bits that decode to
// nothing, signatures out of order or twice by one key. Other verifiers may
// accept some of these; here one statement has one form, so that no changed bit
// can go unseen. It checks no signature.
func ParseEnvelope(line []byte) (*Envelope, error) {
	body, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: no line end: the file was cut off", ErrFormat)
	}
	var w wireEnvelope
	if err := engine.DecodeCanonical(body, &w); err != nil {
		return nil, fmt.Errorf("%w: envelope: %w", ErrFormat, err)
	}
	e := &Envelope{PayloadType: w.PayloadType}
	var err error
	if e.Payload, err = decode64(w.Payload); err != nil {
		return nil, fmt.Errorf("%w: payload: %w", ErrFormat, err)
	}
	for i, s := range w.Signatures {
		if i > 0 && w.Signatures[i-1].KeyID >= s.KeyID {
			return nil, fmt.Errorf("%w: signature %d: key ids must be different and in order", ErrFormat, i+1)
		}
		sig, err := decode64(s.Sig)
		if err != nil {
			return nil, fmt.Errorf("%w: signature %d: %w", ErrFormat, i+1, err)
		}
		e.Signatures = append(e.Signatures, Signature{s.KeyID, sig})
	}
	return e, nil
}

// decode64 decodes standard base64 with padding. What encoding again would not
// give back is refused.
func decode64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	switch {
	case err != nil && strings.ContainsAny(s, "-_"):
		return nil, errors.New("base64 in the alphabet for URLs; the canonical form has + and /")
	case err != nil:
		return nil, fmt.Errorf("base64: %w", err)
	case base64.StdEncoding.EncodeToString(b) != s: // line breaks, which the decoder skips
		return nil, errors.New("base64 not in canonical form")
	}
	return b, nil
}

// Trust says whose signatures count.
type Trust struct {
	Keys []PublicKey
	// Threshold is how many different keys must have signed; 0 is one. A key
	// listed twice counts once.
	Threshold int
	// AllowUnknown lets signatures by other keys stand beside those that count.
	// They are not checked, so a change in them goes unseen.
	AllowUnknown bool
}

// Check reports a policy that nothing can meet.
func (t Trust) Check() error {
	n := len(t.unique())
	switch {
	case n == 0:
		return fmt.Errorf("%w: no key to verify with", ErrSignature)
	case t.Threshold < 0 || t.Threshold > n:
		return fmt.Errorf("%w: %d signatures wanted of %d different keys", ErrSignature, t.Threshold, n)
	}
	return nil
}

func (t Trust) unique() map[string]PublicKey {
	out := map[string]PublicKey{}
	for _, k := range t.Keys {
		out[k.ID()] = k
	}
	return out
}

// Verify checks every signature and returns the ids of the keys that signed, in
// order. It counts keys, not signatures. Errors are ErrSignature: a signature
// that is wrong, by a key that is not trusted, or too few of them.
func (e *Envelope) Verify(t Trust) ([]string, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	known := t.unique()
	signed := map[string]bool{}
	var ids []string
	for _, s := range e.Signatures {
		k, ok := known[s.KeyID]
		switch {
		case !ok && t.AllowUnknown:
			continue
		case !ok:
			return nil, fmt.Errorf("%w: by key %q, which is none of those given; give that key too, or allow unknown signatures", ErrSignature, s.KeyID)
		case !k.verify(PAE(e.PayloadType, e.Payload), s.Sig):
			return nil, fmt.Errorf("%w: that of key %s does not fit: payload or signature was changed", ErrSignature, s.KeyID)
		}
		if !signed[s.KeyID] {
			signed[s.KeyID] = true
			ids = append(ids, s.KeyID)
		}
	}
	if want := max(t.Threshold, 1); len(ids) < want {
		return nil, fmt.Errorf("%w: %d of the given keys signed, %d must", ErrSignature, len(ids), want)
	}
	return ids, nil
}
