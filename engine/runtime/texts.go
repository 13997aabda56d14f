package runtime

import (
	"context"
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

	// Where contents come from that are not at hand.
	rooms store.Rooms
	room  string
}

func newTexts(s store.Rooms, room string, salt []byte) *texts {
	return &texts{salt: salt, digests: map[string]string{}, content: map[string]string{}, rooms: s, room: room}
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

// bring fetches the contents of ts that are not at hand; those that the store
// does not have either stay away.
func (x *texts) bring(ctx context.Context, ts []*engine.Text) error {
	names := x.missing(ts)
	if len(names) == 0 {
		return nil
	}
	blobs, err := x.rooms.Blobs(ctx, x.room, names)
	if err != nil {
		return fmt.Errorf("blobs: %w", err)
	}
	return x.add(blobs)
}

// fetch gives the texts their content, from the store where it is not at hand.
func (x *texts) fetch(ctx context.Context, ts []*engine.Text) error {
	if err := x.bring(ctx, ts); err != nil {
		return err
	}
	for _, t := range ts {
		if err := x.load(t); err != nil {
			return err
		}
	}
	return nil
}

// drop forgets all contents: they come from the store when needed again.
func (x *texts) drop() {
	clear(x.digests)
	clear(x.content)
}

// missing lists the digests of ts whose content is not at hand, each once.
func (x *texts) missing(ts []*engine.Text) []string {
	var ds []string
	var seen map[string]bool
	for _, t := range ts {
		d := t.Blob.Digest
		if t.Loaded() || seen[d] {
			continue
		}
		if _, ok := x.content[d]; ok {
			continue
		}
		if seen == nil {
			seen = map[string]bool{}
		}
		seen[d] = true
		ds = append(ds, d)
	}
	return ds
}
