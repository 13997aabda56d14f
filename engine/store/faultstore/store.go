package faultstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/agentrooms/qualify/engine/store"
)

var _ store.Store = (*Store)(nil)

// ErrInjected is in the chain of every error that a plan made.
var ErrInjected = errors.New("injected fault")

// Fired is one fault that struck.
type Fired struct {
	Op   Op
	N    int64 // call of this method
	Kind Kind
}

// Error is the error of a struck call. It unwraps to ErrInjected and, where
// the kind has one, to the sentinel that a caller tests for.
type Error struct {
	Fired
	cause error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s, call %d: %v (%s)", e.Op, e.N, ErrInjected, e.Kind)
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap gives ErrInjected and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrInjected}
	}
	return []error{ErrInjected, e.cause}
}

// Store is a store whose calls go wrong by plan. Make one with New. It is safe
// for concurrent use if the store below is.
type Store struct {
	inner    store.Store
	plan     Plan
	onFault  func(Fired)
	released chan struct{}
	release  func()

	mu    sync.Mutex
	calls map[Op]int64 // by method, and by AnyRead and AnyWrite
	fired []Fired
}

// New decorates a store, which it then owns: Close closes it. onFault, when
// not nil, is told of each fault as it strikes, before the call goes on; it
// may be called from several goroutines at once. The error says that the plan
// or the package's list of methods is wrong.
func New(inner store.Store, plan Plan, onFault func(Fired)) (*Store, error) {
	if err := checkTaxonomy(classes, storeType()); err != nil {
		return nil, err
	}
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	released := make(chan struct{})
	return &Store{
		inner: inner, plan: plan, onFault: onFault, calls: map[Op]int64{},
		released: released, release: sync.OnceFunc(func() { close(released) }),
	}, nil
}

// Unstall lets every stalled call go on, now and later. It may be called twice.
func (s *Store) Unstall() { s.release() }

// Fired lists the faults that struck, in order.
func (s *Store) Fired() []Fired {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Fired(nil), s.fired...)
}

// Calls counts the calls so far by method, and those of each class under
// AnyRead and AnyWrite; struck ones are counted too.
func (s *Store) Calls() map[Op]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// Close lets stalled calls go on and closes the store below.
func (s *Store) Close() error {
	s.release()
	return s.inner.Close()
}

// strike counts a call and says what is to happen to it. Of several faults the
// first of the plan strikes.
func (s *Store) strike(op Op) (Fired, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	class, group := classes[op], AnyRead
	if class == Write {
		group = AnyWrite
	}
	s.calls[op]++
	s.calls[group]++
	f := Fired{Op: op, N: s.calls[op], Kind: s.kind(op, group, class)}
	if f.Kind == "" {
		return f, false
	}
	s.fired = append(s.fired, f)
	return f, true
}

func (s *Store) kind(op, group Op, class Class) Kind {
	for _, f := range s.plan.Faults {
		if f.Op != op && f.Op != group {
			continue
		}
		if n := s.calls[f.Op]; n == f.Nth || f.Forever && n > f.Nth {
			return f.Kind
		}
	}
	if r := s.plan.Random; r != nil && (r.Max == 0 || len(s.fired) < r.Max) {
		return r.draw(op, class, s.calls[op])
	}
	return ""
}

// call makes one call of the store below, unless the plan has it otherwise.
func call[T any](ctx context.Context, s *Store, op Op, f func() (T, error)) (T, error) {
	var zero T
	hit, struck := s.strike(op)
	if !struck {
		return f()
	}
	if s.onFault != nil {
		s.onFault(hit)
	}
	switch hit.Kind {
	case FailBefore:
		return zero, &Error{Fired: hit}
	case DiskFull:
		return zero, &Error{Fired: hit, cause: store.ErrFull}
	case Stall:
		select {
		case <-s.released:
			return f()
		case <-ctx.Done():
			return zero, &Error{Fired: hit, cause: ctx.Err()}
		}
	case FailAfter, LoseReply:
	}
	if v, err := f(); err != nil {
		return v, err // refused below: nothing was stored, and the caller may know
	}
	if hit.Kind == LoseReply {
		return zero, &Error{Fired: hit, cause: context.DeadlineExceeded}
	}
	return zero, &Error{Fired: hit}
}

// do is call for methods that return an error only.
func do(ctx context.Context, s *Store, op Op, f func() error) error {
	_, err := call(ctx, s, op, func() (struct{}, error) { return struct{}{}, f() })
	return err
}
