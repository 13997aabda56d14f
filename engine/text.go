package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Media types of the texts the engine handles.
const (
	MediaText = "text/plain"
	MediaJSON = "application/json"
)

// Blob refers to content kept outside the digest chain. Digest is the
// lower-case hex SHA-256 of (room salt ‖ bytes); Len is in bytes.
type Blob struct {
	Digest string `json:"digest"`
	Len    int    `json:"len"`
	Media  string `json:"media"`
}

// Text is content by reference, by value, or both. A machine writes a text by
// value (Plain, JSONText); the runtime seals it: it stores the bytes as a
// blob, and from then on rows, snapshots and digests see the reference only.
// An event delivered to a machine carries both.
type Text struct {
	Blob Blob   // zero until sealed
	S    string // content; empty when only the reference is at hand
}

// Plain is an unsealed text of media type text/plain.
func Plain(s string) Text { return Text{Blob: Blob{Media: MediaText}, S: s} }

// JSONText is an unsealed text of media type application/json.
func JSONText(b []byte) Text { return Text{Blob: Blob{Media: MediaJSON}, S: string(b)} }

// Sealed reports whether the text has a blob reference.
func (t Text) Sealed() bool { return t.Blob.Digest != "" }

// Loaded reports whether the content is at hand.
func (t Text) Loaded() bool { return !t.Sealed() || len(t.S) == t.Blob.Len }

// IsZero reports whether there is neither content nor reference.
func (t Text) IsZero() bool { return t.Blob.Digest == "" && t.S == "" }

type textJSON struct {
	Digest string  `json:"digest,omitempty"`
	Len    *int    `json:"len,omitempty"`
	Media  string  `json:"media,omitempty"`
	Text   *string `json:"text,omitempty"`
}

// MarshalJSON writes {digest,len,media} when sealed, {media,text} otherwise.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Sealed() {
		return json.Marshal(textJSON{Digest: t.Blob.Digest, Len: &t.Blob.Len, Media: t.Blob.Media})
	}
	return json.Marshal(textJSON{Media: t.Blob.Media, Text: &t.S})
}

// AppendCanonical implements Appender.
func (t Text) AppendCanonical(dst []byte) ([]byte, error) {
	if t.Sealed() {
		dst = appendText(append(dst, `{"digest":`...), t.Blob.Digest)
		dst = strconv.AppendInt(append(dst, `,"len":`...), int64(t.Blob.Len), 10)
		if t.Blob.Media != "" {
			dst = appendText(append(dst, `,"media":`...), t.Blob.Media)
		}
		return append(dst, '}'), nil
	}
	dst = append(dst, '{')
	if t.Blob.Media != "" {
		dst = append(appendText(append(dst, `"media":`...), t.Blob.Media), ',')
	}
	return append(appendText(append(dst, `"text":`...), t.S), '}'), nil
}

// UnmarshalJSON reads either form that MarshalJSON writes.
func (t *Text) UnmarshalJSON(b []byte) error {
	var j textJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	*t = Text{Blob: Blob{Digest: j.Digest, Media: j.Media}}
	if j.Len != nil {
		t.Blob.Len = *j.Len
	}
	if j.Text != nil {
		t.S = *j.Text
	}
	return nil
}
