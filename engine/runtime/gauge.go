package runtime

import "sync/atomic"

// Gauge counts trials and model calls in flight over all rooms that share it.
// The zero value is ready; a nil Gauge counts nothing. Safe for concurrent use.
type Gauge struct {
	trials, calls level
}

type level struct{ now, peak, total atomic.Int64 }

func (l *level) enter() {
	n := l.now.Add(1)
	l.total.Add(1)
	for {
		p := l.peak.Load()
		if n <= p || l.peak.CompareAndSwap(p, n) {
			return
		}
	}
}

// GaugeReading is what a Gauge shows.
type GaugeReading struct {
	Trials, PeakTrials, TotalTrials int64
	Calls, PeakCalls, TotalCalls    int64
}

// Read returns the present figures.
func (g *Gauge) Read() GaugeReading {
	if g == nil {
		return GaugeReading{}
	}
	return GaugeReading{
		Trials: g.trials.now.Load(), PeakTrials: g.trials.peak.Load(), TotalTrials: g.trials.total.Load(),
		Calls: g.calls.now.Load(), PeakCalls: g.calls.peak.Load(), TotalCalls: g.calls.total.Load(),
	}
}

func (g *Gauge) trial() func() {
	if g == nil {
		return func() {}
	}
	g.trials.enter()
	return func() { g.trials.now.Add(-1) }
}

func (g *Gauge) call() func() {
	if g == nil {
		return func() {}
	}
	g.calls.enter()
	return func() { g.calls.now.Add(-1) }
}
