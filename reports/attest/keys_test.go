package attest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The example keys of RFC 8410, section 10, and what ssh-keygen -l prints of the
// public one in the form of OpenSSH.
const (
	rfcPrivate = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n"
	rfcPublic  = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
	rfcID      = "SHA256:ebCT4wkJOqO5AIlHG03cHvn3Cr3ZZEEh8m81duHhR3Q"
)

func TestQ8_KeysOfRFC8410(t *testing.T) {
	t.Parallel()
	k, err := ParsePrivate([]byte(rfcPrivate))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	public, err := k.Public().PEM()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{rfcPrivate, rfcPublic}, []string{string(secret), string(public)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p, err := ParsePublic([]byte(rfcPublic))
	if err != nil || p.ID() != rfcID || k.Public().ID() != rfcID || p.String() != p.ID() {
		t.Errorf("%v, %s, %s", err, p, k.Public())
	}
}

func TestQ8_BadKeysAreNamed(t *testing.T) {
	t.Parallel()
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	der, _ := pem.Decode([]byte(rfcPrivate))
	const ecPublic = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEZ8woBDq5s8oNTCiGhe1SZ4pRqY5e\nvnSiZ1KBZdpt8DgMeCA5mInkFp4NfTfz2cXmSQjTn0fPSiCnMDBBc3pwtA==\n-----END PUBLIC KEY-----\n"
	for _, tc := range []struct {
		name, text, words string
		public            bool
	}{
		{"nothing", "", "no PEM file", false},
		{"text", "secret words", "no PEM file", false},
		{"the public one", rfcPublic, "signing needs the private one", false},
		{"the private one", rfcPrivate, "keep it secret", true},
		{"encrypted", block("ENCRYPTED PRIVATE KEY", der.Bytes), "encrypted", false},
		{"of OpenSSH", block("OPENSSH PRIVATE KEY", der.Bytes), "OpenSSH", false},
		{"a certificate", block("CERTIFICATE", der.Bytes), `"CERTIFICATE"`, true},
		{"cut", block("PRIVATE KEY", der.Bytes[:40]), "no PKCS #8 key", false},
		{"cut public", block("PUBLIC KEY", der.Bytes[:20]), "no public key", true},
		{"two", rfcPrivate + rfcPrivate, "behind the PEM block", false},
		{"of P-256", ecPublic, "no public key", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var err error
			if tc.public {
				_, err = ParsePublic([]byte(tc.text))
			} else {
				_, err = ParsePrivate([]byte(tc.text))
			}
			wantError(t, err, ErrKey, tc.words)
			if err != nil && (strings.Contains(err.Error(), "MC4C") || strings.Contains(err.Error(), "secret words")) {
				t.Errorf("the error holds the file: %v", err)
			}
		})
	}
	if _, err := Generate(io.LimitReader(bytes.NewReader(make([]byte, 64)), 31)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("too little randomness: %v", err)
	}
}

// TestQ8_SecretsAreNeverPrinted prints a key in every way fmt and JSON know.
func TestQ8_SecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	k := signer(t, 0xa7)
	holder := struct{ Key *PrivateKey }{k}
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%o", "%b", "%t"} {
		out = append(out, fmt.Sprintf(verb, k), fmt.Sprintf(verb, *k), fmt.Sprintf(verb, holder), fmt.Sprintf(verb, []*PrivateKey{k}))
	}
	j, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, string(j))
	seed := k.secret.Seed()
	for _, text := range out {
		for _, secret := range []string{
			hex.EncodeToString(seed[:4]), strings.ToUpper(hex.EncodeToString(seed[:4])), base64.StdEncoding.EncodeToString(seed)[:8],
			"167 167", "167, 167", "0xa7, 0xa7", "247 247", "10100111 10100111", string(seed[:4]),
		} {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds the secret", text)
			}
		}
	}
}
