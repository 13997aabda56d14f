package runtime

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// texts seals and loads the texts of one room. It digests each content once
// and keeps the blobs that the store has not been given yet.
type texts struct {
	salt    []byte
	digests map[string]string // content → digest
	content map[string]string // digest → content
	fresh   []store.Blob
}

func newTexts(salt []byte) *texts {
	return &texts{salt: salt, digests: map[string]string{}, content: map[string]string{}}
}

// seal gives t its reference. Empty texts stay as they are.
func (x *texts) seal(t *engine.Text) error {
	if t.Sealed() {
		return x.load(t)
	}
	if t.S == "" {
		return nil
	}
	if t.Blob.Media == "" {
		t.Blob.Media = engine.MediaText
	}
	d, ok := x.digests[t.S]
	if !ok {
		content := []byte(t.S)
		d = engine.BlobDigest(x.salt, content)
		x.know(d, t.S)
		x.fresh = append(x.fresh, store.Blob{Digest: d, Media: t.Blob.Media, Content: content})
	}
	t.Blob.Digest, t.Blob.Len = d, len(t.S)
	return nil
}

func (x *texts) sealAll(ts []*engine.Text) error {
	for _, t := range ts {
		if err := x.seal(t); err != nil {
			return err
		}
	}
	return nil
}

// load gives a sealed text its content.
func (x *texts) load(t *engine.Text) error {
	if t.Loaded() {
		return nil
	}
	s, ok := x.content[t.Blob.Digest]
	if !ok {
		return fmt.Errorf("text %s of %d bytes: %w", t.Blob.Digest, t.Blob.Len, ErrWithheld)
	}
	if len(s) != t.Blob.Len {
		return engine.Errorf(engine.CodeConflict, "text %s has %d bytes, its reference says %d", t.Blob.Digest, len(s), t.Blob.Len)
	}
	t.S = s
	return nil
}

func (x *texts) know(digest, content string) {
	x.digests[content] = digest
	x.content[digest] = content
}

// add takes blobs from the store; their digests are checked.
func (x *texts) add(blobs map[string][]byte) error {
	for d, b := range blobs {
		if engine.BlobDigest(x.salt, b) != d {
			return engine.Errorf(engine.CodeConflict, "blob %s has another content", d)
		}
		x.know(d, string(b))
	}
	return nil
}

// missing lists the digests of ts whose content is not at hand, each once.
func (x *texts) missing(ts []*engine.Text, seen map[string]bool) []string {
	var ds []string
	for _, t := range ts {
		d := t.Blob.Digest
		if t.Loaded() || seen[d] {
			continue
		}
		if _, ok := x.content[d]; ok {
			continue
		}
		seen[d] = true
		ds = append(ds, d)
	}
	return ds
}
