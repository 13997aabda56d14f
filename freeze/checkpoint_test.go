package freeze

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentrooms/qualify/engine"
)

func key(t testing.TB, name string) (note.Signer, note.Verifier) {
	t.Helper()
	private, public, err := NewKey(name, rand.Reader)
	ok(t, err)
	s, err := note.NewSigner(private)
	ok(t, err)
	v, err := note.NewVerifier(public)
	ok(t, err)
	return s, v
}

// TestQ4_MerkleVectors are those of RFC 6962 in statistics.md §15.
func TestQ4_MerkleVectors(t *testing.T) {
	t.Parallel()
	leaf := tlog.RecordHash(nil)
	if got, want := hex.EncodeToString(leaf[:]), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"; got != want {
		t.Errorf("leaf %s, want %s", got, want)
	}
	tr := newTree()
	for _, s := range []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"} {
		data, err := hex.DecodeString(s)
		ok(t, err)
		ok(t, tr.addRecord(data))
	}
	for size, want := range map[int64]string{
		1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	} {
		root, err := tr.root(size)
		ok(t, err)
		if got := hex.EncodeToString(root[:]); got != want {
			t.Errorf("size %d: root %s, want %s", size, got, want)
		}
	}
	if _, err := tr.root(9); !errors.Is(err, ErrLog) {
		t.Errorf("root over more rows than there are: %v", err)
	}
}

// TestQ4_CanonicalVector is the JCS sample of statistics.md §15 (RFC 8785).
func TestQ4_CanonicalVector(t *testing.T) {
	t.Parallel()
	in := `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`
	want := `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
	got, err := engine.CanonicalJSON([]byte(in))
	ok(t, err)
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestQ4_ACheckpointHoldsALogToItsPast: a log that grew satisfies the
// checkpoint; one that was cut off, edited or forked does not, even when its
// chain was written anew as a whole.
func TestQ4_ACheckpointHoldsALogToItsPast(t *testing.T) {
	t.Parallel()
	signer, verifier := key(t, "release")
	_, stranger := key(t, "release")
	s := story(t)
	whole := logOf(t, s)
	for size := range len(whole) + 1 {
		msg, err := Sign(whole[:size], signer)
		ok(t, err)
		c, err := CheckCheckpoint(whole, msg, verifier)
		if err != nil || c.Size != int64(size) || !c.Signed {
			t.Errorf("size %d: %+v, %v", size, c, err)
		}
		if size == 0 {
			continue
		}
		if _, err := CheckCheckpoint(whole[:size-1], msg, verifier); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("size %d, cut off: %v", size, err)
		}
		anew := slices.Clone(s)
		anew[size-1] = entry{KindRegistration, registration("c_8")}
		if _, err := CheckCheckpoint(logOf(t, anew), msg, verifier); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "forked") {
			t.Errorf("size %d, written anew: %v", size, err)
		}
		if _, err := CheckCheckpoint(whole, msg, stranger); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "not signed by") {
			t.Errorf("size %d, another key of that name: %v", size, err)
		}
		if _, err := CheckCheckpoint(whole, msg); err != nil {
			t.Errorf("size %d, without a key: %v", size, err)
		}
	}
}

// TestQ4_EveryBitOfACheckpointIsGuarded flips each bit of a signed checkpoint.
func TestQ4_EveryBitOfACheckpointIsGuarded(t *testing.T) {
	t.Parallel()
	signer, verifier := key(t, "release")
	rows := logOf(t, story(t))
	msg, err := Sign(rows, signer)
	ok(t, err)
	for i := range msg {
		for bit := range 8 {
			flipped := bytes.Clone(msg)
			flipped[i] ^= 1 << bit
			if _, err := CheckCheckpoint(rows, flipped, verifier); err == nil {
				t.Errorf("byte %d bit %d: %q is accepted", i, bit, flipped)
			}
		}
	}
	// The last character of the signature carries two bits that mean nothing.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := len(msg) - 3 // before "=\n"
	if msg[last+1] != '=' {
		t.Fatalf("checkpoint %q does not end in one pad", msg)
	}
	for i := range len(alphabet) {
		other := bytes.Clone(msg)
		other[last] = alphabet[i]
		if _, err := CheckCheckpoint(rows, other, verifier); (err == nil) != (other[last] == msg[last]) {
			t.Errorf("the signature spelled %q: %v", other[last], err)
		}
	}
	for _, text := range []string{"", "x\n", Origin + "\n08\n" + strings.Repeat("A", 43) + "=\n", Origin + "\n-1\n" + strings.Repeat("A", 43) + "=\n", Origin + "\n8\nAAAA\n", Origin + "\n8\n" + strings.Repeat("A", 43) + "=\nmore\n"} {
		if text == "" {
			text = "\n"
		}
		bad, err := note.Sign(&note.Note{Text: text}, signer)
		ok(t, err)
		if _, err := CheckCheckpoint(rows, bad, verifier); !errors.Is(err, ErrLog) {
			t.Errorf("%q, well signed: %v", text, err)
		}
	}
}

// TestQ4_CheckpointsInTheLogAreJudged: with a key, the log must hold one that
// the key signed; each covers exactly the rows before it.
func TestQ4_CheckpointsInTheLogAreJudged(t *testing.T) {
	t.Parallel()
	signer, verifier := key(t, "release")
	_, other := key(t, "other")
	s := story(t)
	msg, err := Sign(logOf(t, s[:4]), signer)
	ok(t, err)
	with := slices.Insert(slices.Clone(s), 4, entry{KindCheckpoint, CheckpointEntry{string(msg)}})
	fault := func(what, want string, v Verification) {
		t.Helper()
		if len(v.Faults) == 0 || !strings.Contains(v.Faults[0].String(), want) {
			t.Errorf("%s: faults %v, want %q", what, v.Faults, want)
		}
	}
	if v := VerifyLog(logOf(t, with), verifier); len(v.Faults) > 0 || v.Signed != 4 {
		t.Errorf("whole: %+v", v)
	}
	sound(t, logOf(t, with))
	fault("no checkpoint", "holds no checkpoint signed by release", VerifyLog(logOf(t, s), verifier))
	fault("another key", "not signed by other", VerifyLog(logOf(t, with), other))
	moved := slices.Insert(slices.Clone(s), 5, entry{KindCheckpoint, CheckpointEntry{string(msg)}})
	fault("moved", "covers 4 rows and stands behind 5", VerifyLog(logOf(t, moved)))
	anew := slices.Clone(with)
	anew[1] = entry{KindRegistration, registration("c_8")}
	v := VerifyLog(logOf(t, anew))
	if !slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.N == 5 && strings.Contains(f.Text, "its root is") }) {
		t.Errorf("written anew: faults %v, want the root of row 5", v.Faults)
	}
	if _, err := Sign(logOf(t, s[1:]), signer); !errors.Is(err, ErrLog) {
		t.Errorf("a log with faults is signed: %v", err)
	}
}

func TestQ4_KeyNamesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", "a+b"} {
		if _, _, err := NewKey(name, rand.Reader); err == nil {
			t.Errorf("key %q is made", name)
		}
	}
}
