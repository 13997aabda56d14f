package runtime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Clock says what trial time is.
type Clock int

// Clocks. Virtual time is made of the durations that providers, tools and the
// owner state; wall time is the machine's.
const (
	Virtual Clock = iota
	Wall
)

// stopwatch gives wall trial time in microseconds; it goes on where an earlier
// process stopped.
type stopwatch struct {
	start  time.Time
	offset int64
	clock  func() int64 // in place of both, when set
}

func startWatch(offsetUS int64) stopwatch { return stopwatch{start: time.Now(), offset: offsetUS} }

func (s stopwatch) us() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return s.offset + time.Since(s.start).Microseconds()
}

// wait returns when us microseconds have passed, when something arrives on
// wake (which it returns), or when ctx ends. Negative us waits for the others
// alone.
func wait[T any](ctx context.Context, us int64, wake <-chan T) (T, bool) {
	var zero T
	var after <-chan time.Time
	if us >= 0 {
		timer := time.NewTimer(time.Duration(us) * time.Microsecond)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case v := <-wake:
		return v, true
	case <-after:
	case <-ctx.Done():
	}
	return zero, false
}

// finishTimeout bounds the writes that save a room after its context ended.
const finishTimeout = 90 * time.Second

// finishing is a context for what must still be written after ctx has ended.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
}

// Every calls f again and again, d apart, until ctx ends (nil) or f fails (its
// error).
func Every(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := f(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// Bounds of the pauses of a Backoff.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// Backoff paces looks at something that another process changes: pauses of
// 20 ms, doubling up to 250 ms. Use one for one wait, from one goroutine.
type Backoff struct {
	began time.Time
	pause time.Duration
}

// NewBackoff begins a wait.
func NewBackoff() *Backoff { return &Backoff{began: time.Now(), pause: firstPause} }

// Wait returns after the next pause, or as soon as wake is closed; ctx's error
// when it ends.
func (b *Backoff) Wait(ctx context.Context, wake <-chan struct{}) error {
	timer := time.NewTimer(b.pause)
	defer timer.Stop()
	b.pause = min(2*b.pause, longestPause)
	select {
	case <-wake:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Quicken begins the pauses anew: what is looked at has just moved.
func (b *Backoff) Quicken() { b.pause = firstPause }

// Waited is the wall time since the wait began.
func (b *Backoff) Waited() time.Duration { return time.Since(b.began) }

// microseconds is a clock of whole microseconds since 1970 that never goes
// back (R72). A nil now is the machine's clock.
func microseconds(now func() time.Time) func() int64 {
	if now == nil {
		now = time.Now
	}
	last := int64(0)
	return func() int64 {
		last = max(last, now().UnixMicro())
		return last
	}
}

// pause returns a channel that is closed by the clock after us microseconds,
// and what frees it; a negative us never comes.
func pause(us int64) (<-chan time.Time, func()) {
	if us < 0 {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Duration(us) * time.Microsecond)
	return timer.C, func() { timer.Stop() }
}

// FreshToken is 32 random hex digits: for lease tokens and for the salts of
// rooms that are not simulated, and for nothing that enters a decision.
func FreshToken() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
