package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"pgregory.net/rapid"
)

// TestQ8_PAEOfTheSpecification is the vector of the DSSE protocol, with its
// P-256 signature.
func TestQ8_PAEOfTheSpecification(t *testing.T) {
	t.Parallel()
	got := PAE("http://example.com/HelloWorld", []byte("hello world"))
	if diff := cmp.Diff("DSSEv1 29 http://example.com/HelloWorld 11 hello world", string(got)); diff != "" {
		t.Error(diff)
	}
	hash := sha256.Sum256(got)
	if h := hex.EncodeToString(hash[:]); h != "217751fac2c4f14edb2c9297fbc34abcb016ba88e74757e875ec4ac16fb6b6a1" {
		t.Error(h)
	}
	number := func(s string) []byte {
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			t.Fatal(s)
		}
		return n.FillBytes(make([]byte, 32))
	}
	point := append([]byte{4}, number("46950820868899156662930047687818585632848591499744589407958293238635476079160")...)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(point, number("5640078356564379163099075877009565129882514886557779369047442380624545832820")...))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString("A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==")
	if err != nil {
		t.Fatal(err)
	}
	if !ecdsa.Verify(key, hash[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		t.Error("the signature of the specification does not verify")
	}
	if got := string(PAE("", nil)); got != "DSSEv1 0  0 " {
		t.Errorf("empty: %q", got)
	}
}

// theirs is a key as go-securesystemslib wants it.
type theirs struct {
	secret ed25519.PrivateKey
	public ed25519.PublicKey
	id     string // "": the library derives it
}

func (k theirs) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(k.secret, data), nil
}

func (k theirs) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(k.public, data, sig) {
		return dsse.ErrNoSignature
	}
	return nil
}
func (k theirs) KeyID() (string, error)   { return k.id, nil }
func (k theirs) Public() crypto.PublicKey { return k.public }

func theirsOf(k *PrivateKey) theirs { return theirs{secret: *k.secret, public: k.Public().key} }

// TestQ8_AgreesWithSecureSystemsLib lets an independent implementation verify
// what this one signs, and the other way round.
func TestQ8_AgreesWithSecureSystemsLib(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.String().Draw(t, "type")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		n := rapid.IntRange(1, 3).Draw(t, "keys")
		if diff := cmp.Diff(dsse.PAE(kind, body), PAE(kind, body)); diff != "" {
			t.Fatal(diff)
		}
		var keys []*PrivateKey
		var others []dsse.Verifier
		var signers []dsse.Signer
		for i := range n {
			k, err := Generate(bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 32)))
			if err != nil {
				t.Fatal(err)
			}
			id, err := dsse.SHA256KeyID(k.Public().key)
			if err != nil || id != k.Public().ID() {
				t.Fatalf("key id %s, theirs %s, %v", k.Public().ID(), id, err)
			}
			keys = append(keys, k)
			others = append(others, theirsOf(k))
			with := theirsOf(k)
			with.id = id
			signers = append(signers, with)
		}
		if !jsonText(kind) {
			return // JSON cannot carry it
		}
		e, err := SignEnvelope(kind, body, keys...)
		if err != nil {
			t.Fatal(err)
		}
		line, err := e.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var read dsse.Envelope
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		v, err := dsse.NewMultiEnvelopeVerifier(n, others...)
		if err != nil {
			t.Fatal(err)
		}
		accepted, decoded, err := v.VerifyAndDecode(context.Background(), &read)
		if err != nil || len(accepted) != n || !bytes.Equal(decoded, body) {
			t.Fatalf("they accept %d of %d: %v", len(accepted), n, err)
		}

		s, err := dsse.NewEnvelopeSigner(signers...)
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.SignPayload(context.Background(), kind, body)
		if err != nil {
			t.Fatal(err)
		}
		again := &Envelope{PayloadType: made.PayloadType, Payload: body}
		for _, x := range made.Signatures {
			sig, err := base64.StdEncoding.DecodeString(x.Sig)
			if err != nil {
				t.Fatal(err)
			}
			again.Signatures = append(again.Signatures, Signature{x.KeyID, sig})
		}
		trusted := Trust{Threshold: n}
		for _, k := range keys {
			trusted.Keys = append(trusted.Keys, k.Public())
		}
		if ids, err := again.Verify(trusted); err != nil || len(ids) != n {
			t.Fatalf("we accept %v: %v", ids, err)
		}
	})
}

// jsonText reports text that survives JSON.
func jsonText(s string) bool { return strings.ToValidUTF8(s, "") == s }

// TestQ8_EnvelopesHaveOneForm: what any other verifier may accept is refused
// here when it is not the canonical form.
func TestQ8_EnvelopesHaveOneForm(t *testing.T) {
	t.Parallel()
	k := signer(t, 1)
	e, err := SignEnvelope("t", []byte{0xfb, 0xef, 0xff, 1}, k, signer(t, 2)) // base64 with + and /, and with padding
	if err != nil {
		t.Fatal(err)
	}
	good, err := e.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseEnvelope(good); err != nil {
		t.Fatal(err)
	}
	text := string(good)
	replace := func(from, to string) string {
		t.Helper()
		if !strings.Contains(text, from) {
			t.Fatalf("%s is not in %s", from, text)
		}
		return strings.Replace(text, from, to, 1)
	}
	_, tail, _ := strings.Cut(text, `"signatures"`)
	sigs := text[strings.Index(text, "["):strings.LastIndex(text, "]")]
	first := sigs[1 : strings.Index(sigs, "}")+1]
	for _, tc := range []struct{ name, text, words string }{
		{"url-safe base64", replace("++//AQ==", "--__AQ=="), "alphabet for URLs"},
		{"no padding", replace("++//AQ==", "++//AQ"), "base64"},
		{"loose bits", replace("++//AQ==", "++//AR=="), "base64"},
		{"line break in base64", replace("++//AQ==", `++//\nAQ==`), "not in canonical form"},
		{"escape", replace(`"payloadType":"t"`, `"payloadType":"\u0074"`), "canonical form from byte"},
		{"space", replace(`,"payloadType"`, `, "payloadType"`), "canonical form from byte"},
		{"order", `{"payloadType":"t","payload":"++//AQ==","signatures"` + tail, "canonical form from byte"},
		{"unknown field", replace(`"signatures":`, `"sig":1,"signatures":`), `unknown field "sig"`},
		{"unknown field of a signature", replace(`"keyid":`, `"cert":"","keyid":`), `unknown field "cert"`},
		{"other case", replace(`"payload":`, `"Payload":`), "canonical form"},
		{"key twice", replace(`"payload":"++//AQ==",`, `"payload":"AAAA","payload":"++//AQ==",`), `"payload" twice`},
		{"key twice in a signature", replace(`"keyid":`, `"keyid":"x","keyid":`), `"keyid" twice`},
		{"no key id", replace(`"keyid":"`+e.Signatures[0].KeyID+`",`, ""), "canonical form"},
		{"one signature twice", replace(first, first+","+first), "different and in order"},
		{"signatures out of order", replace(sigs, "["+sigs[strings.Index(sigs, "},{")+2:]+","+first), "different and in order"},
		{"no line end", strings.TrimSuffix(text, "\n"), "cut off"},
		{"two line ends", text + "\n", "canonical form"},
		{"carriage return", strings.TrimSuffix(text, "\n") + "\r\n", "canonical form"},
		{"a document behind it", strings.TrimSuffix(text, "\n") + "{}\n", "JSON"},
		{"byte order mark", "\ufeff" + text, "JSON"},
		{"nothing", "", "cut off"},
		{"null", "null\n", "canonical form"},
		{"a list", "[]\n", "unmarshal"},
		{"invalid UTF-8", replace(`"t"`, "\"\xff\""), "canonical form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseEnvelope([]byte(tc.text))
			wantError(t, err, ErrFormat, tc.words)
		})
	}
}

// TestQ8_EveryBitOfAnEnvelopeCounts flips each.
func TestQ8_EveryBitOfAnEnvelopeCounts(t *testing.T) {
	t.Parallel()
	a, b := signer(t, 1), signer(t, 2)
	e, err := SignEnvelope(PayloadType, []byte(`{"a":1}`), a, b)
	if err != nil {
		t.Fatal(err)
	}
	good, err := e.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	verify := func(line []byte) error {
		e, err := ParseEnvelope(line)
		if err == nil {
			_, err = e.Verify(Trust{Keys: []PublicKey{a.Public(), b.Public()}}) // one of two is enough, and yet
		}
		return err
	}
	if err := verify(good); err != nil {
		t.Fatal(err)
	}
	flipEach(t, good, verify)
}

// flipEach wants verify to find every changed bit. Under the race detector it
// changes one bit of each byte, unless QUALIFY_LONG is set.
func flipEach(t *testing.T, good []byte, verify func([]byte) error) {
	t.Helper()
	bad := bytes.Clone(good)
	for i := range bad {
		for bit := range 8 {
			if underRace && os.Getenv("QUALIFY_LONG") == "" && bit != i%8 {
				continue
			}
			bad[i] ^= 1 << bit
			if verify(bad) == nil {
				t.Errorf("bit %d of byte %d (%q to %q) goes unseen", bit, i, good[i], bad[i])
			}
			bad[i] = good[i]
		}
	}
}

func TestQ8_SignaturesAreCountedByKey(t *testing.T) {
	t.Parallel()
	a, b, c := signer(t, 1), signer(t, 2), signer(t, 3)
	keys := func(ks ...*PrivateKey) (out []PublicKey) {
		for _, k := range ks {
			out = append(out, k.Public())
		}
		return out
	}
	make := func(ks ...*PrivateKey) *Envelope {
		e, err := SignEnvelope("t", []byte("x"), ks...)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	twice := make(a)
	twice.Signatures = append(twice.Signatures, twice.Signatures[0])
	wrong := make(a)
	wrong.Signatures[0].Sig[5] ^= 1
	short := make(a)
	short.Signatures[0].Sig = short.Signatures[0].Sig[:63]
	borrowed := make(a)
	borrowed.Signatures[0].KeyID = b.Public().ID()
	other := make(a)
	other.PayloadType = "u"
	for _, tc := range []struct {
		name  string
		e     *Envelope
		trust Trust
		words string // "" verifies
	}{
		{"one of one", make(a), Trust{Keys: keys(a)}, ""},
		{"two of two", make(a, b), Trust{Keys: keys(a, b), Threshold: 2}, ""},
		{"two of three", make(a, c), Trust{Keys: keys(a, b, c), Threshold: 2}, ""},
		{"one of two wanted twice", make(a), Trust{Keys: keys(a, b), Threshold: 2}, "1 of the given keys signed, 2 must"},
		{"one signature twice", twice, Trust{Keys: keys(a, b), Threshold: 2}, "1 of the given keys signed, 2 must"},
		{"one key listed twice", make(a), Trust{Keys: keys(a, a), Threshold: 2}, "2 signatures wanted of 1 different keys"},
		{"one key listed twice, one signature twice", twice, Trust{Keys: keys(a, a), Threshold: 2}, "2 signatures wanted of 1 different keys"},
		{"wrong key", make(a), Trust{Keys: keys(b)}, "none of those given"},
		{"an unknown one beside", make(a, b), Trust{Keys: keys(a)}, "none of those given"},
		{"an unknown one allowed", make(a, b), Trust{Keys: keys(a), AllowUnknown: true}, ""},
		{"only an unknown one, allowed", make(b), Trust{Keys: keys(a), AllowUnknown: true}, "0 of the given keys signed, 1 must"},
		{"changed signature", wrong, Trust{Keys: keys(a)}, "does not fit"},
		{"a wrong one beside a good one", &Envelope{"t", []byte("x"), append(make(b).Signatures, wrong.Signatures...)}, Trust{Keys: keys(a, b)}, "does not fit"},
		{"cut signature", short, Trust{Keys: keys(a)}, "does not fit"},
		{"under another id", borrowed, Trust{Keys: keys(a, b)}, "does not fit"},
		{"for another type", other, Trust{Keys: keys(a)}, "does not fit"},
		{"none", &Envelope{PayloadType: "t", Payload: []byte("x")}, Trust{Keys: keys(a)}, "0 of the given keys"},
		{"no key", make(a), Trust{}, "no key to verify with"},
		{"the zero key", make(a), Trust{Keys: []PublicKey{{}}}, "none of those given"},
		{"below none", make(a), Trust{Keys: keys(a), Threshold: -1}, "-1 signatures"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ids, err := tc.e.Verify(tc.trust)
			if tc.words != "" {
				wantError(t, err, ErrSignature, tc.words)
			} else if err != nil || len(ids) < max(tc.trust.Threshold, 1) {
				t.Errorf("%v, %v", ids, err)
			}
		})
	}
	_, err := SignEnvelope("t", nil)
	wantError(t, err, ErrSignature, "no key")
	_, err = SignEnvelope("t", nil, a, a)
	wantError(t, err, ErrSignature, "has signed already")
}
