package archive

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
)

// bodyDoc is a line of bodies/KEY.jsonl: content that is UTF-8 stands as text,
// other content as base64.
type bodyDoc struct {
	Base64 []byte  `json:"base64,omitempty"`
	Digest string  `json:"digest"`
	Text   *string `json:"text,omitempty"`
}

// encodeBodies writes contents by digest, each checked against it.
func encodeBodies(salt []byte, contents map[string][]byte) (out []byte, err error) {
	for _, digest := range slices.Sorted(maps.Keys(contents)) {
		b := contents[digest]
		if engine.BlobDigest(salt, b) != digest {
			return nil, fmt.Errorf("content %s is not the one that was stored", digest)
		}
		d := bodyDoc{Digest: digest, Base64: b}
		if utf8.Valid(b) {
			text := string(b)
			d.Base64, d.Text = nil, &text
		}
		if out, err = appendDoc(out, &d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeBodies reads the contents of a room, which it must refer to.
func decodeBodies(name string, data []byte, r *room) (map[string][]byte, error) {
	lines, err := decodeLines[bodyDoc](name, data, r.bodies)
	if err != nil {
		return nil, err
	}
	named, err := r.named()
	if err != nil {
		return nil, damaged(name, "%v", err)
	}
	out := make(map[string][]byte, len(lines))
	for i := range lines {
		d := &lines[i]
		content := d.Base64
		if d.Text != nil {
			content = []byte(*d.Text)
		}
		_, known := slices.BinarySearch(named, d.Digest)
		switch {
		case (d.Text == nil) == (len(d.Base64) == 0) || d.Text == nil && utf8.Valid(content):
			return nil, damaged(name, "line %d: content is text where it is UTF-8, else base64, and one of both", i+1)
		case i > 0 && lines[i-1].Digest >= d.Digest:
			return nil, damaged(name, "line %d: digests are out of order", i+1)
		case engine.BlobDigest(r.head.Salt, content) != d.Digest:
			return nil, damaged(name, "line %d: the content does not match its digest %s", i+1, d.Digest)
		case !known:
			return nil, damaged(name, "line %d: the room names no content %s", i+1, d.Digest)
		}
		out[d.Digest] = bytes.Clone(content)
	}
	return out, nil
}
