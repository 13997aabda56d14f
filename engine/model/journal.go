package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Journal is a provider's own log of the calls that reached it, kept apart
// from the store, as a real server's would be. Providers of class Lookup
// record a call before they answer it, and answer Lookup by it; tests count
// by it that no operation is called twice. Safe for concurrent use.
type Journal interface {
	// Record notes one call. After an error the call did not reach the provider.
	Record(op, requestDigest string) error
	// Has reports whether the operation was ever called.
	Has(op string) bool
	// Count tells how often the operation was called.
	Count(op string) int
	// Total counts all calls.
	Total() int
	// Repeated lists operations called more than once, in the order of their
	// second call.
	Repeated() []string
}

// MemoryJournal is a Journal for one process. The zero value is ready.
type MemoryJournal struct {
	mu       sync.Mutex
	counts   map[string]int
	repeated []string
	total    int
}

var _ Journal = (*MemoryJournal)(nil)

// Record implements Journal; it never fails.
func (j *MemoryJournal) Record(op, _ string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(op)
	return nil
}

func (j *MemoryJournal) note(op string) {
	if j.counts == nil {
		j.counts = map[string]int{}
	}
	j.total++
	if j.counts[op]++; j.counts[op] == 2 {
		j.repeated = append(j.repeated, op)
	}
}

// Has implements Journal.
func (j *MemoryJournal) Has(op string) bool { return j.Count(op) > 0 }

// Count implements Journal.
func (j *MemoryJournal) Count(op string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[op]
}

// Total implements Journal.
func (j *MemoryJournal) Total() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}

// Repeated implements Journal.
func (j *MemoryJournal) Repeated() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.repeated...)
}

// FileJournal is a Journal in an append-only file of lines "operation digest".
// Each record is one write, so it survives the death of the process at any
// instant. One process at a time writes a file.
type FileJournal struct {
	mem MemoryJournal
	mu  sync.Mutex
	f   *os.File
}

var _ Journal = (*FileJournal)(nil)

// OpenFileJournal opens or creates the journal and reads what earlier
// processes recorded. A last line without its end was never acknowledged, so
// its call was not made: it is cut off.
func OpenFileJournal(path string) (*FileJournal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open call journal: %w", err)
	}
	j := &FileJournal{f: f}
	if err := j.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("read call journal %s: %w", path, err), f.Close())
	}
	return j, nil
}

func (j *FileJournal) read() error {
	b, err := io.ReadAll(j.f)
	if err != nil {
		return err
	}
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	if len(whole) < len(b) {
		if err := j.f.Truncate(int64(len(whole))); err != nil {
			return err
		}
	}
	n := 0
	for line := range strings.Lines(string(whole)) {
		n++
		op, _, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || op == "" {
			return fmt.Errorf("line %d is no record", n)
		}
		j.mem.note(op)
	}
	return nil
}

// Record implements Journal.
func (j *FileJournal) Record(op, requestDigest string) error {
	if op == "" || strings.ContainsAny(op, " \n") || strings.ContainsAny(requestDigest, "\n") {
		return fmt.Errorf("call journal: operation id %q or digest %q cannot be a line", op, requestDigest)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.WriteString(op + " " + requestDigest + "\n"); err != nil {
		return fmt.Errorf("call journal: %w", err)
	}
	return j.mem.Record(op, requestDigest)
}

// Has implements Journal.
func (j *FileJournal) Has(op string) bool { return j.mem.Has(op) }

// Count implements Journal.
func (j *FileJournal) Count(op string) int { return j.mem.Count(op) }

// Total implements Journal.
func (j *FileJournal) Total() int { return j.mem.Total() }

// Repeated implements Journal.
func (j *FileJournal) Repeated() []string { return j.mem.Repeated() }

// Close closes the file.
func (j *FileJournal) Close() error { return j.f.Close() }
