package runtime

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Point names a place where a test may end the process.
type Point string

// Crash points, in the order in which a room passes them.
const (
	AfterCommit    Point = "after_commit"    // a row is durable, nothing it asks for has begun
	AfterMark      Point = "after_mark"      // dispatch mark durable, call not made
	AfterCall      Point = "after_call"      // call returned, neither effect nor receipt durable
	AfterEffect    Point = "after_effect"    // effect record durable, receipt not
	AfterReceipt   Point = "after_receipt"   // a receipt was stored outside a commit
	AfterDelivery  Point = "after_delivery"  // outbox entry handed over, not marked delivered
	AfterSnapshot  Point = "after_snapshot"  // a snapshot of a room that goes on is durable
	AfterReconcile Point = "after_reconcile" // an unknown operation was settled at the close
	BeforeClose    Point = "before_close"    // all settled, room still open
	AfterClose     Point = "after_close"
	AfterWrite     Point = "after_write" // any write of the store is durable; passed by the caller's store, see Pass
	AnyPoint       Point = "any"         // in a Crash: every point counts
)

// Points lists all crash points but AnyPoint.
func Points() []Point {
	return []Point{AfterCommit, AfterMark, AfterCall, AfterEffect, AfterReceipt, AfterDelivery, AfterSnapshot, AfterReconcile, BeforeClose, AfterClose, AfterWrite}
}

// Crash ends the process at the At-th passage of a point, counted over all
// rooms that share it. A nil Crash never does. Safe for concurrent use.
type Crash struct {
	Point Point
	At    int64 // from 1
	// Hook, when set, is called at every passage instead of counting; its
	// error makes Run drop everything, as if the process had died there.
	Hook func(Point) error

	passed atomic.Int64
}

// ParseCrash reads "17" (the 17th commit) or "after_mark:3" (the third passage
// of that point; "any:3" counts all points). The empty string is no crash.
func ParseCrash(s string) (*Crash, error) {
	if s == "" {
		return nil, nil
	}
	point, count := AfterCommit, s
	if name, n, ok := strings.Cut(s, ":"); ok {
		point, count = Point(name), n
		if point != AnyPoint && !slices.Contains(Points(), point) {
			return nil, fmt.Errorf("crash point %q is unknown; known are any and %v", name, Points())
		}
	}
	at, err := strconv.ParseInt(count, 10, 64)
	if err != nil || at < 1 {
		return nil, fmt.Errorf("crash point %q: %q is no passage number from 1", s, count)
	}
	return &Crash{Point: point, At: at}, nil
}

// Pass counts a passage of a point outside the runtime: a caller that wraps its
// store passes AfterWrite behind every write, so that a process can be ended
// after the writes of a campaign too. Its error means that the caller must
// drop everything.
func (c *Crash) Pass(p Point) error { return c.pass(p) }

func (c *Crash) pass(p Point) error {
	switch {
	case c == nil:
		return nil
	case c.Hook != nil:
		if err := c.Hook(p); err != nil {
			return &dropError{fmt.Errorf("crash at %s: %w", p, err)}
		}
		return nil
	case c.Point != AnyPoint && c.Point != p, c.passed.Add(1) != c.At:
		return nil
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return &dropError{fmt.Errorf("crash at %s: %w", p, err)}
	}
	select {} // the kill is on its way
}

// dropError makes Run return at once and write nothing more.
type dropError struct{ err error }

func (e *dropError) Error() string { return e.err.Error() }
func (e *dropError) Unwrap() error { return e.err }
