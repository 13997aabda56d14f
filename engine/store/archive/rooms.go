package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine/store"
)

// loadedRoom is a room in memory, with its contents once they were asked for.
// Neither ever changes.
type loadedRoom struct {
	*room
	key      string
	contents map[string][]byte // nil: not read yet
}

// load reads a room. ErrNotFound; ErrCorrupt names the file.
func (s *Store) load(ctx context.Context, id string) (*loadedRoom, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	key, ok := strings.CutPrefix(id, roomID(s.campaign, ""))
	if ok {
		_, ok = slices.BinarySearch(s.rooms, key)
	}
	if !ok {
		return nil, fmt.Errorf("room %s: %w", id, store.ErrNotFound)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetch(key)
}

// fetch is load with the lock held.
func (s *Store) fetch(key string) (*loadedRoom, error) {
	if s.last != nil && s.last.key == key {
		return s.last, nil
	}
	name := roomName(key)
	data, err := readFile(s.files, name)
	if err != nil {
		return nil, err
	}
	r, err := decodeRoom(name, roomID(s.campaign, key), data, s.withheld)
	if err != nil {
		return nil, err
	}
	s.last = &loadedRoom{room: r, key: key}
	s.heads[key] = r.head
	return s.last, nil
}

// contentsOf are the contents of a room, none where bodies are withheld.
func (s *Store) contentsOf(r *loadedRoom) (map[string][]byte, error) {
	if s.withheld {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.contents != nil {
		return r.contents, nil
	}
	name := bodiesName(r.key)
	data, err := readFile(s.files, name)
	if err != nil {
		return nil, err
	}
	r.contents, err = decodeBodies(name, data, r.room)
	return r.contents, err
}

// Load implements store.Rooms. There is never a snapshot.
func (s *Store) Load(ctx context.Context, room string) (*store.Loaded, error) {
	r, err := s.load(ctx, room)
	if err != nil {
		return nil, err
	}
	l := &store.Loaded{Head: r.head.Clone(), Rows: store.CloneRows(r.rows), Effects: slices.Clone(r.effects)}
	for i := range r.ops {
		l.Ops = append(l.Ops, r.ops[i].Clone())
	}
	return l, nil
}

// LoadTail implements store.Rooms: without a snapshot it is Load.
func (s *Store) LoadTail(ctx context.Context, room string) (*store.Loaded, error) {
	return s.Load(ctx, room)
}

// LoadOps implements store.Rooms.
func (s *Store) LoadOps(ctx context.Context, room string, ids []string) (*store.Loaded, error) {
	r, err := s.load(ctx, room)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, id := range ids {
		asked[id] = true
	}
	l := &store.Loaded{Head: r.head.Clone()}
	for i := range r.ops {
		if asked[r.ops[i].ID] {
			l.Ops = append(l.Ops, r.ops[i].Clone())
		}
	}
	for i := range r.effects {
		if asked[r.effects[i].Op] {
			l.Effects = append(l.Effects, r.effects[i])
		}
	}
	return l, nil
}

// Rows implements store.Rooms.
func (s *Store) Rows(ctx context.Context, room string, after int64, limit int) ([]store.Row, error) {
	r, err := s.load(ctx, room)
	if err != nil {
		return nil, err
	}
	rows := r.rows[min(max(after, -1), r.head.Rev)+1:]
	if limit > 0 && limit < len(rows) {
		rows = rows[:limit]
	}
	return store.CloneRows(rows), nil
}

// Blobs implements store.Rooms. Every content is checked against its digest.
func (s *Store) Blobs(ctx context.Context, room string, digests []string) (map[string][]byte, error) {
	r, err := s.load(ctx, room)
	if err != nil {
		return nil, err
	}
	held, err := s.contentsOf(r)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, d := range digests {
		if b, ok := held[d]; ok {
			out[d] = append([]byte{}, b...)
		}
	}
	return out, nil
}

// Outbox implements store.Rooms.
func (s *Store) Outbox(ctx context.Context, room string) ([]store.OutboxEntry, error) {
	r, err := s.load(ctx, room)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(r.outbox)
	for i := range out {
		out[i].Body = bytes.Clone(out[i].Body)
	}
	return out, nil
}

// Lookup implements store.Rooms: an archive has no index, so that it could only
// say that the room remembers nothing. ErrNotFound, errors.ErrUnsupported.
func (s *Store) Lookup(ctx context.Context, room, _ string, keys []string) (map[string]string, error) {
	if _, err := s.load(ctx, room); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return map[string]string{}, nil
	}
	return nil, fmt.Errorf("room %s: a bundle does not hold what rooms remember; ask the store it came from: %w", room, errors.ErrUnsupported)
}

// ListRooms implements store.Rooms.
func (s *Store) ListRooms(ctx context.Context, prefix string) ([]store.Head, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	var out []store.Head
	for _, key := range s.rooms {
		if !strings.HasPrefix(roomID(s.campaign, key), prefix) {
			continue
		}
		h, err := s.head(ctx, key)
		if err != nil {
			return nil, err
		}
		out = append(out, h.Clone())
	}
	return out, nil
}

func (s *Store) head(ctx context.Context, key string) (store.Head, error) {
	if err := enter(ctx); err != nil {
		return store.Head{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.heads[key]; ok {
		return h, nil
	}
	r, err := s.fetch(key)
	if err != nil {
		return store.Head{}, err
	}
	return r.head, nil
}
