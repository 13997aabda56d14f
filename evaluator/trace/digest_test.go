package trace

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
)

// recordDigest is the definition: the hex SHA-256 of the canonical JSON of a
// record whose digest field is empty and therefore left out.
func recordDigest(rec any) (string, error) {
	b, err := engine.Canonical(rec)
	if err != nil {
		return "", err
	}
	return engine.Digest(b), nil
}

// The digest is taken from the line, whatever else in it looks like a digest.
func TestDigestOfLineIsThatOfTheRecordWithoutIt(t *testing.T) {
	t.Parallel()
	texts := rapid.SampledFrom([]string{
		"digest", noDigest, `"digest":"` + noDigest + `"`, `\"`, `\`, "{", "}", "[", ",", ":", `,"digest":"`, "a", "é", "\u2028", "",
	})
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOfN(texts, texts, 0, 4).Draw(t, "members")
		body, err := json.Marshal(map[string]any{"digest": noDigest, "in": m, "list": []any{m, "digest", noDigest}})
		if err != nil {
			t.Fatal(err)
		}
		e := Event{Kind: texts.Draw(t, "kind"), Op: texts.Draw(t, "op"), Cause: texts.Draw(t, "cause"), Body: body}
		var out bytes.Buffer
		w := NewWriter(&out)
		if err := w.Header(Header{Case: texts.Draw(t, "case")}); err != nil {
			t.Fatal(err)
		}
		if err := w.Event(e); err != nil {
			t.Fatal(err)
		}
		if _, err := w.End(End{}); err != nil {
			t.Fatal(err)
		}
		tr, err := Read(&out)
		if err != nil {
			t.Fatal(err)
		}
		got := tr.Events[0]
		stated := got.Digest
		got.Digest = ""
		want, err := recordDigest(&got)
		if err != nil || want != stated {
			t.Fatalf("digest %s, want %s, %v", stated, want, err)
		}
	})
}
