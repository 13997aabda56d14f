package faultstore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Kind is what happens to a call.
type Kind string

// Kinds of faults, as the package comment explains them.
const (
	FailBefore Kind = "fail_before"
	FailAfter  Kind = "fail_after"
	LoseReply  Kind = "lose_reply"
	Stall      Kind = "stall"
	DiskFull   Kind = "disk_full"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{FailBefore, FailAfter, LoseReply, Stall, DiskFull} }

// Fault strikes the Nth call of Op.
type Fault struct {
	Op      Op
	Nth     int64 // from 1, over all goroutines
	Kind    Kind
	Forever bool // every later call of Op too
}

// Random strikes calls by chance. Whether a call is struck depends on the
// seed, its method and its number among the calls of that method only: not on
// how the calls of different methods interleave.
type Random struct {
	Seed     uint64
	PerMille int    // of all calls whose class the kinds allow; at most 1000
	Kinds    []Kind // drawn evenly; Stall is not among them
	Reads    bool   // reads go wrong too, always by FailBefore
	Max      int    // faults at most; 0 for no limit
}

// Plan says what goes wrong. The zero Plan is a store without faults.
type Plan struct {
	Faults []Fault
	Random *Random
}

// Validate refuses a plan that cannot happen: a method that the store does not
// have, an ordinal below 1, a full disk on a read.
func (p Plan) Validate() error {
	for _, f := range p.Faults {
		c, ok := ClassOf(f.Op)
		switch {
		case !ok || c == Final:
			return fmt.Errorf("faultstore: %q cannot go wrong", f.Op)
		case f.Nth < 1:
			return fmt.Errorf("faultstore: call %d of %s; the first is 1", f.Nth, f.Op)
		case !slices.Contains(Kinds(), f.Kind):
			return fmt.Errorf("faultstore: fault kind %q is unknown", f.Kind)
		case f.Kind == DiskFull && c != Write:
			return fmt.Errorf("faultstore: %s is a read, it needs no disk", f.Op)
		}
	}
	r := p.Random
	switch {
	case r == nil:
		return nil
	case r.PerMille < 0 || r.PerMille > 1000:
		return fmt.Errorf("faultstore: %d per mille", r.PerMille)
	case len(r.Kinds) == 0:
		return errors.New("faultstore: random faults of no kind")
	}
	for _, k := range r.Kinds {
		if k == Stall || !slices.Contains(Kinds(), k) {
			return fmt.Errorf("faultstore: no random fault of kind %q", k)
		}
	}
	return nil
}

// draw decides about the n-th call of a method; "" lets it pass.
func (r *Random) draw(op Op, c Class, n int64) Kind {
	if c == Read && !r.Reads {
		return ""
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%d", r.Seed, op, n))
	if binary.BigEndian.Uint64(h[:8])%1000 >= uint64(r.PerMille) {
		return ""
	}
	if c == Read {
		return FailBefore
	}
	return r.Kinds[binary.BigEndian.Uint64(h[8:16])%uint64(len(r.Kinds))]
}
