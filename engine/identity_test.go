package engine

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func identity(t *testing.T, tool, args string, volatile []string, target string) string {
	t.Helper()
	id, err := EffectIdentity(tool, []byte(args), volatile, target)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Q1: identity is tool, canonical arguments without volatile ones, target;
// numbers are normalised.
func TestQ1_EffectIdentity(t *testing.T) {
	t.Parallel()
	base := identity(t, "pay", `{"to":"ana","cents":25,"memo":"x"}`, []string{"memo"}, "ana")
	if got := identity(t, "pay", `{"cents":25.0, "memo":"other", "to":"ana"}`, []string{"memo"}, "ana"); got != base {
		t.Error("order, number form or a volatile field changed the identity")
	}
	for name, other := range map[string]string{
		"tool":     identity(t, "refund", `{"to":"ana","cents":25}`, []string{"memo"}, "ana"),
		"argument": identity(t, "pay", `{"to":"ana","cents":26}`, []string{"memo"}, "ana"),
		"target":   identity(t, "pay", `{"to":"ana","cents":25}`, []string{"memo"}, "bob"),
	} {
		if other == base {
			t.Errorf("another %s has the same identity", name)
		}
	}
	if _, err := EffectIdentity("pay", []byte(`[1]`), []string{"memo"}, ""); err == nil {
		t.Error("arguments that are no object have an identity")
	}
}

// The key repeats for a retry after an unknown outcome and changes for an
// intended second effect (DESIGN §2).
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	key := func(room, scope string, n int) string {
		k, err := IdempotencyKey(room, scope, "pay", []byte(`{"cents":25}`), nil, n)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key("r", "m1", 0)
	if retry := key("r", "m1", 0); retry != first {
		t.Error("a retry has another key")
	}
	for name, k := range map[string]string{"second effect": key("r", "m1", 1), "other task": key("r", "m2", 0), "other room": key("s", "m1", 0)} {
		if k == first {
			t.Errorf("%s has the same key", name)
		}
	}
}

// R10: ids are digests of their cause, never random, and parts do not run
// into each other.
func TestR10_OperationIDsAreDigestsOfCause(t *testing.T) {
	t.Parallel()
	k := OpKey{Kind: OpSpecialist, Cause: "t2", Attempt: 0, Ordinal: 3}
	id := OperationID("case/arm/0", k)
	if id != OperationID("case/arm/0", k) || !strings.HasPrefix(id, "op_") || len(id) != 35 {
		t.Fatalf("id %q is not a stable op_ id", id)
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(l string) OpKey {
			return OpKey{
				Kind:    rapid.SampledFrom([]OpKind{OpAgent, OpTool, OpReview}).Draw(t, l+"kind"),
				Cause:   rapid.StringN(0, 3, 6).Draw(t, l+"cause"),
				Attempt: rapid.IntRange(0, 12).Draw(t, l+"attempt"), Ordinal: rapid.IntRange(0, 12).Draw(t, l+"ordinal"),
			}
		}
		a, b := draw("a"), draw("b")
		if (a == b) != (OperationID("r", a) == OperationID("r", b)) {
			t.Fatalf("ids of %+v and %+v", a, b)
		}
	})
	if StableID("x", "ab", "c") == StableID("x", "a", "bc") {
		t.Error("parts run into each other")
	}
}

// DESIGN §2: a blob is named SHA-256(salt ‖ bytes), so that equal contents of
// two rooms have two names and a name does not betray its content.
func TestBlobDigestIsSalted(t *testing.T) {
	t.Parallel()
	const want = "ed7878d0901a69939429d2ec3495cab05813b618bc12d37f17d459b2f495b7af" // SHA-256 of "saltyes"
	if got := BlobDigest([]byte("salt"), []byte("yes")); got != want {
		t.Errorf("BlobDigest = %s, want %s", got, want)
	}
	if BlobDigest([]byte("a"), []byte("yes")) == BlobDigest([]byte("b"), []byte("yes")) {
		t.Error("two salts give one name")
	}
}

func TestTextForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text Text
		want string
	}{
		{Plain("hi"), `{"media":"text/plain","text":"hi"}`},
		{Text{Blob: Blob{Digest: "d", Len: 2, Media: MediaText}, S: "hi"}, `{"digest":"d","len":2,"media":"text/plain"}`},
	} {
		got, err := Canonical(tt.text)
		if err != nil || string(got) != tt.want {
			t.Errorf("Canonical = %s, %v; want %s", got, err, tt.want)
		}
		var back Text
		if err := back.UnmarshalJSON(got); err != nil {
			t.Fatal(err)
		}
		if back.Blob != tt.text.Blob || (!tt.text.Sealed() && back.S != tt.text.S) {
			t.Errorf("read back %+v, want %+v", back, tt.text)
		}
	}
	sealed := Text{Blob: Blob{Digest: "d", Len: 2}}
	if sealed.Loaded() || !Plain("").Loaded() {
		t.Error("Loaded does not tell a bare reference from content")
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   string
		fields []string
		want   string
	}{
		{`{"id":"i-17","cents":4700}`, []string{"id"}, "i-17"},
		{`{"id":"i-17","cents":4700.0}`, []string{"id", "cents"}, "i-17/4700"},
		{`{"id":"i-17"}`, nil, ""},
		{`{}`, []string{"id"}, ""},
		{`broken`, []string{"id"}, ""},
	} {
		if got := Target([]byte(tt.args), tt.fields); got != tt.want {
			t.Errorf("Target(%s, %v) = %q, want %q", tt.args, tt.fields, got, tt.want)
		}
	}
}
