package runtime

import (
	"context"
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
}

func startWatch(offsetUS int64) stopwatch { return stopwatch{start: time.Now(), offset: offsetUS} }

func (s stopwatch) us() int64 { return s.offset + time.Since(s.start).Microseconds() }

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
