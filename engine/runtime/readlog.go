package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Recall looks an intake up that came before. It reports false when it did
// not. Errors: code CONFLICT when it came with another digest;
// store.ErrNotFound without the room; an empty digest equals any.
func Recall(ctx context.Context, s store.Rooms, room, event, digest string) (Answer, bool, error) {
	found, err := s.Lookup(ctx, room, spaceIntake, []string{event})
	if err != nil {
		return Answer{}, false, fmt.Errorf("room %s: look up event %s: %w", room, event, err)
	}
	value, ok := found[event]
	if !ok {
		return Answer{}, false, nil
	}
	had, n, _ := strings.Cut(value, " ")
	rev, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return Answer{}, false, engine.Errorf(engine.CodeConflict, "room %s: the index entry of event %s is %q", room, event, value)
	}
	if digest != "" && had != digest {
		return Answer{}, false, engine.Errorf(engine.CodeConflict, "room %s: event %s came before and said something else", room, event)
	}
	entry, err := readEntry(ctx, s, room, rev)
	return Answer{Rev: rev, Again: true, Entry: entry}, err == nil, err
}

func readEntry(ctx context.Context, s store.Rooms, room string, rev int64) (engine.LogEntry, error) {
	entries, err := ReadLog(ctx, s, room, rev-1, 1)
	if err == nil && len(entries) != 1 {
		err = fmt.Errorf("room %s, revision %d: %w", room, rev, store.ErrNotFound)
	}
	if err != nil {
		return engine.LogEntry{}, err
	}
	return entries[0], nil
}

// ReadLog reads revisions of a room after one (-1: from the first), ascending
// and at most limit (0: all), texts loaded where their content is at hand.
// Calls come without their requests. Nothing is folded or verified; Replay
// does that. Errors: store.ErrNotFound, and those of the store.
func ReadLog(ctx context.Context, s store.Rooms, room string, after int64, limit int) ([]engine.LogEntry, error) {
	rows, err := s.Rows(ctx, room, after, limit)
	if err != nil {
		return nil, fmt.Errorf("room %s, rows after %d: %w", room, after, err)
	}
	entries := make([]engine.LogEntry, len(rows))
	var texts []*engine.Text
	for i := range rows {
		if err := parseRow(&rows[i], &entries[i]); err != nil {
			return nil, fmt.Errorf("room %s, revision %d: %w", room, rows[i].Rev, err)
		}
		texts = append(texts, entries[i].Event.Texts()...)
		for j := range entries[i].Commands {
			texts = append(texts, entries[i].Commands[j].Texts()...)
		}
	}
	seen := map[string]bool{}
	var names []string
	for _, t := range texts {
		if d := t.Blob.Digest; !t.Loaded() && !seen[d] {
			seen[d] = true
			names = append(names, d)
		}
	}
	if len(names) == 0 {
		return entries, nil
	}
	blobs, err := s.Blobs(ctx, room, names)
	if err != nil {
		return nil, fmt.Errorf("room %s, texts of rows after %d: %w", room, after, err)
	}
	for _, t := range texts {
		if b, ok := blobs[t.Blob.Digest]; ok && !t.Loaded() {
			t.S = string(b)
		}
	}
	return entries, nil
}

func parseRow(row *store.Row, entry *engine.LogEntry) error {
	entry.Rev = row.Rev
	if err := json.Unmarshal(row.Event, &entry.Event); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	var commands []rowCommand
	if err := json.Unmarshal(row.Commands, &commands); err != nil {
		return fmt.Errorf("commands: %w", err)
	}
	entry.Commands = make([]engine.Command, len(commands))
	for i := range commands {
		entry.Commands[i] = commands[i].Command
		if c := commands[i].Call; c != nil {
			call := c.Call
			entry.Commands[i].Call = &call
		}
	}
	return nil
}
