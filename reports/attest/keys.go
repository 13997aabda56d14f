package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// PEM types of key files.
const (
	pemPrivate = "PRIVATE KEY" // PKCS #8
	pemPublic  = "PUBLIC KEY"  // SubjectPublicKeyInfo
)

// ErrKey means bytes that are not the Ed25519 key wanted. Its text never holds
// any of them.
var ErrKey = errors.New("not a usable Ed25519 key")

// PrivateKey signs. It prints as its id, whatever the verb; what verbs that
// fmt does not pass on would print is an address.
type PrivateKey struct{ secret *ed25519.PrivateKey }

// PublicKey verifies. The zero value verifies nothing.
type PublicKey struct{ key ed25519.PublicKey }

// Generate makes a key of the next 32 bytes of random, which must come from a
// cryptographic source.
func Generate(random io.Reader) (*PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	k := ed25519.NewKeyFromSeed(seed)
	return &PrivateKey{&k}, nil
}

// Public is the key that verifies what k signs.
func (k *PrivateKey) Public() PublicKey {
	return PublicKey{ed25519.PublicKey(bytes.Clone((*k.secret)[ed25519.SeedSize:]))}
}

func (k *PrivateKey) sign(msg []byte) []byte { return ed25519.Sign(*k.secret, msg) }

// Format writes the id of the key for every verb: a secret must not reach a log
// by accident.
func (k PrivateKey) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "private key of "+k.Public().ID()) // as fmt does: there is nobody to tell
}

// PEM is the key as PKCS #8 in PEM. It is a secret.
func (k *PrivateKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(*k.secret)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: der}), nil
}

// ParsePrivate reads what PEM wrote. Errors are ErrKey.
func ParsePrivate(data []byte) (*PrivateKey, error) {
	der, err := onlyBlock(data, pemPrivate)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: the PEM block holds no PKCS #8 key", ErrKey)
	}
	k, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: it holds a key of another algorithm (%T)", ErrKey, parsed)
	}
	return &PrivateKey{&k}, nil
}

// PEM is the key as SubjectPublicKeyInfo in PEM.
func (p PublicKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}), nil
}

// ParsePublic reads a public key in PEM. Errors are ErrKey.
func ParsePublic(data []byte) (PublicKey, error) {
	der, err := onlyBlock(data, pemPublic)
	if err != nil {
		return PublicKey{}, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: the PEM block holds no public key", ErrKey)
	}
	k, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return PublicKey{}, fmt.Errorf("%w: it holds a key of another algorithm (%T)", ErrKey, parsed)
	}
	return PublicKey{k}, nil
}

// onlyBlock is the content of the one PEM block that data consists of.
func onlyBlock(data []byte, want string) ([]byte, error) {
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%w: it is no PEM file; qualify attest keygen makes one", ErrKey)
	case block.Type == pemPublic && want == pemPrivate:
		return nil, fmt.Errorf("%w: it is a public key; signing needs the private one", ErrKey)
	case block.Type == pemPrivate && want == pemPublic:
		return nil, fmt.Errorf("%w: it is a private key; keep it secret, and give the public one", ErrKey)
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["Proc-Type"] != "":
		return nil, fmt.Errorf("%w: it is encrypted; decrypt it first (openssl pkey -in FILE)", ErrKey)
	case block.Type == "OPENSSH PRIVATE KEY":
		return nil, fmt.Errorf("%w: it is in the form of OpenSSH; qualify attest keygen makes one in PKCS #8", ErrKey)
	case block.Type != want:
		return nil, fmt.Errorf("%w: its PEM block is a %q, not a %q", ErrKey, block.Type, want)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("%w: something stands behind the PEM block", ErrKey)
	}
	return block.Bytes, nil
}

// ID names the key by its content: "SHA256:" and the base64 of the digest of
// the key as SSH encodes it. That is the fingerprint that SSH tools show for it,
// and the id that go-securesystemslib derives.
func (p PublicKey) ID() string {
	var wire []byte
	for _, part := range [][]byte{[]byte("ssh-ed25519"), p.key} {
		wire = append(binary.BigEndian.AppendUint32(wire, uint32(len(part))), part...) //nolint:gosec // 11 and 32
	}
	sum := sha256.Sum256(wire)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// String is the id.
func (p PublicKey) String() string { return p.ID() }

func (p PublicKey) verify(msg, sig []byte) bool {
	return len(p.key) == ed25519.PublicKeySize && ed25519.Verify(p.key, msg, sig)
}
