package world

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// defaultSlow is the factor of a slow call that names none.
const defaultSlow = 20

// faultsAt lists the faults placed on the next call of (tool, target), in the
// order of the case.
func (w *World) faultsAt(tool, target string) []*corpus.Fault {
	var out []*corpus.Fault
	for i := range w.c.Faults {
		f := &w.c.Faults[i]
		if f.Tool != tool {
			continue
		}
		n := w.calls[call{tool: tool}]
		if f.Target != nil {
			if *f.Target != target {
				continue
			}
			n = w.calls[call{tool, target, true}]
		}
		if n+1 == f.Call {
			out = append(out, f)
		}
	}
	return out
}

func firstOf(faults []*corpus.Fault, kind string) *corpus.Fault {
	for _, f := range faults {
		if f.Kind == kind {
			return f
		}
	}
	return nil
}

// Virtual durations of a tool call in microseconds: reads 60–400 ms, others
// 150–900 ms, drawn by seed, tool and count.
const (
	readLeastUS, readSpanUS   = 60_000, 340_000
	writeLeastUS, writeSpanUS = 150_000, 750_000
)

// lostLeastUS is the least time a call of unknown outcome takes: nobody knows
// before the caller stops waiting.
const lostLeastUS = 10_000_000

// duration is the virtual time the next call of a tool takes. An unknown tool
// is refused at once.
func (w *World) duration(tool string) int64 {
	t, ok := w.c.Tool(tool)
	if !ok {
		return 0
	}
	least, span := int64(writeLeastUS), uint64(writeSpanUS)
	if t.Action == engine.ActionRead {
		least, span = readLeastUS, readSpanUS
	}
	return least + int64(w.draw(tool, w.calls[call{tool: tool}])%span)
}

// draw is a 64-bit number that depends on the seed, the tool and the count
// only.
func (w *World) draw(tool string, n int) uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], w.seed)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	sum := sha256.Sum256(append(append([]byte("qualify/world/v1\x00"), b[:]...), tool...))
	return binary.BigEndian.Uint64(sum[:8])
}
