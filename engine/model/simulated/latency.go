package simulated

import "fmt"

// Latency is the distribution of virtual durations of a call, by two of its
// quantiles in milliseconds.
//
// The quantile function is piecewise linear through (0, Median/2), (0.5,
// Median), (0.95, P95), (1, 2·P95−Median), computed in integer microseconds.
type Latency struct {
	MedianMS int64
	P95MS    int64
}

// MaxLatencyMS bounds both quantiles: one day.
const MaxLatencyMS = 24 * 60 * 60 * 1000

func (l Latency) validate() error {
	if l.MedianMS < 0 || l.P95MS < l.MedianMS || l.P95MS > MaxLatencyMS {
		return fmt.Errorf("latency median %d ms, p95 %d ms: needs 0 <= median <= p95 <= %d", l.MedianMS, l.P95MS, MaxLatencyMS)
	}
	return nil
}

// quantile returns the duration in microseconds at ppm millionths, 0 <= ppm <
// 1,000,000.
func (l Latency) quantile(ppm int64) int64 {
	median, p95 := l.MedianMS*1000, l.P95MS*1000
	knots := [...]struct{ at, us int64 }{{0, median / 2}, {500_000, median}, {950_000, p95}, {1_000_000, 2*p95 - median}}
	for i := 1; i < len(knots); i++ {
		a, b := knots[i-1], knots[i]
		if ppm < b.at {
			return a.us + (b.us-a.us)*(ppm-a.at)/(b.at-a.at)
		}
	}
	return knots[len(knots)-1].us
}
