package stats

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sort"
)

// DurationBounds encloses a quantile of durations some of which are censored,
// in microseconds. Hi is nil when it is unbounded: the true value is Lo or
// greater, and "≥ Lo" is all there is to print.
type DurationBounds struct {
	Lo int64
	Hi *int64
}

// QuantileBounds are the sharp bounds of the sample's nearest-rank quantile
// whatever the censored durations really were: at least their limit (Lo), or
// without end (Hi). Equal bounds mean that censoring does not reach the
// quantile. They say nothing of sampling error. ErrNoData, ErrRange.
func QuantileBounds(xs []Duration, q float64) (DurationBounds, error) {
	if _, err := NearestRank(xs, q); err != nil {
		return DurationBounds{}, &Refusal{Method: "latency bounds", Rule: err}
	}
	all, done := sortedTimes(xs)
	rank := nearestRank(q, len(xs))
	out := DurationBounds{Lo: all[rank-1]}
	if rank <= len(done) {
		out.Hi = new(done[rank-1])
	}
	return out, nil
}

// sortedTimes are all times, and those that are not censored, sorted.
func sortedTimes(xs []Duration) (all, done []int64) {
	for _, d := range xs {
		all = append(all, d.US)
		if !d.Censored {
			done = append(done, d.US)
		}
	}
	slices.Sort(all)
	slices.Sort(done)
	return all, done
}

// KaplanMeier is the product-limit estimate of the q-quantile: the least time
// at which the estimated share of finished trials reaches q. AtLeast means
// that the share never reaches q; US is then the greatest time observed. At
// equal times trials finish before others are censored.
//
// Assumption: a trial that is cut would have gone on like those that were not
// cut at that time. A limit that all trials share is no worse than none; one
// that depends on how hard the case is breaks it, and then only
// QuantileBounds holds. ErrNoData, ErrRange. Source: Kaplan and Meier 1958.
func KaplanMeier(xs []Duration, q float64) (Quantile, error) {
	const method = "Kaplan-Meier quantile"
	if len(xs) == 0 {
		return Quantile{}, refuse(method, ErrNoData, "no durations")
	}
	if !(q > 0 && q <= 1) {
		return Quantile{}, refuse(method, ErrRange, "quantile %v", q)
	}
	s := slices.Clone(xs)
	slices.SortFunc(s, compareDurations)
	going := 1.0 // share that has not finished
	for i := 0; i < len(s); {
		at, risk, finished := s[i].US, float64(len(s)-i), 0
		for ; i < len(s) && s[i].US == at; i++ {
			if !s[i].Censored {
				finished++
			}
		}
		going *= 1 - float64(finished)/risk
		// The product may miss the share by rounding.
		if 1-going >= q-1e-12 && finished > 0 {
			return Quantile{US: at}, nil
		}
	}
	return Quantile{US: s[len(s)-1].US, AtLeast: true}, nil
}

// DurationInterval is an interval of a quantile of durations. Lo is nil when
// there is no lower bound but 0, Hi when there is no upper one ("unbounded",
// never the longest time).
type DurationInterval struct {
	Q, Level float64
	N        int
	Families int // 0 when the durations were taken for independent
	Lo, Hi   *int64
}

// OrderDurations is OrderInterval for durations: for the lower bound a
// censored one counts as its limit, for the upper bound as endless. Assumption
// and errors as QuantileRanks.
func OrderDurations(xs []Duration, q, level float64) (DurationInterval, error) {
	r, err := QuantileRanks(len(xs), q, level)
	if err != nil {
		return DurationInterval{}, err
	}
	all, done := sortedTimes(xs)
	out := DurationInterval{Q: q, Level: level, N: len(xs)}
	if r.Lo >= 1 {
		out.Lo = new(all[r.Lo-1])
	}
	if r.Hi <= len(done) {
		out.Hi = new(done[r.Hi-1])
	}
	return out, nil
}

// FamilyDurations holds the durations of all trials of a family.
type FamilyDurations struct {
	Family string
	Times  []Duration
}

// ClusterQuantile is the percentile interval of the nearest-rank quantile over
// a cluster bootstrap: families are drawn with replacement and all of their
// trials pooled. For the lower bound a censored duration counts as its limit,
// for the upper one as endless. It is what a bootstrap of sorted trials gives,
// found without sorting them anew: a draw's quantile is at most x if and only
// if its share of trials up to x reaches q.
//
// Assumption: families are independent. Errors: ErrNoData, ErrRange,
// ErrTooFewFamilies. The bounds are nil as in DurationInterval: where the upper
// one would be the longest time of all, there is none.
func ClusterQuantile(families []FamilyDurations, q, level float64, r Resampling) (DurationInterval, error) {
	const method = "cluster bootstrap of a quantile"
	r, err := r.withDefaults(method)
	if err != nil {
		return DurationInterval{}, err
	}
	if err := checkLevel(method, level); err != nil {
		return DurationInterval{}, err
	}
	if !(q > 0 && q < 1) {
		return DurationInterval{}, refuse(method, ErrRange, "quantile %v", q)
	}
	c := newClusterTimes(families)
	out := DurationInterval{Q: q, Level: level, N: len(c.pooled), Families: len(c.size)}
	if out.N == 0 {
		return out, refuse(method, ErrNoData, "no durations")
	}
	if err := checkFamilies(method, out.Families); err != nil {
		return out, err
	}
	c.q, c.r = q, r
	tail := (1 - level) / 2
	out.Lo = c.percentile(c.all, tail)
	out.Hi = c.percentile(c.done, 1-tail)
	if out.Hi != nil && *out.Hi == c.pooled[len(c.pooled)-1] {
		out.Hi = nil // no draw knows of longer times than those that were seen
	}
	return out, nil
}

// clusterTimes holds sorted times by family.
type clusterTimes struct {
	all, done [][]int64 // of each family: every time, and the uncensored
	size      []int
	pooled    []int64 // every time, sorted
	q         float64
	r         Resampling
}

func newClusterTimes(families []FamilyDurations) *clusterTimes {
	sorted := slices.Clone(families)
	slices.SortStableFunc(sorted, func(a, b FamilyDurations) int { return cmp.Compare(a.Family, b.Family) })
	c := &clusterTimes{}
	for i := 0; i < len(sorted); {
		var times []Duration
		name := sorted[i].Family
		for ; i < len(sorted) && sorted[i].Family == name; i++ {
			times = append(times, sorted[i].Times...)
		}
		if len(times) == 0 {
			continue
		}
		all, done := sortedTimes(times)
		c.all, c.done, c.size = append(c.all, all), append(c.done, done), append(c.size, len(all))
		c.pooled = append(c.pooled, all...)
	}
	slices.Sort(c.pooled)
	return c
}

// ways is the number of times that one pass over the draws counts up to.
const ways = 8

// percentile is the ⌈pB⌉-th of the draws' quantiles over times; nil when that
// draw never reaches q. It searches the pooled times for the first up to which
// enough draws reach q, ways at a time, because a pass over the draws costs
// most. It keeps no draw.
func (c *clusterTimes) percentile(times [][]int64, p float64) *int64 {
	need := min(max(ceilShare(p, c.r.Draws), 1), c.r.Draws)
	upto := make([][ways]int32, len(times))
	lo, hi := 0, len(c.pooled) // the answer is in [lo, hi]
	for lo < hi {
		var at [ways]int
		for w := range at {
			at[w] = lo + (hi-lo)*w/ways
			for f, ts := range times {
				n := sort.Search(len(ts), func(k int) bool { return ts[k] > c.pooled[at[w]] })
				upto[f][w] = int32(n) //nolint:gosec // trials of a family are far fewer than 2^31
			}
		}
		for w, n := range c.reached(upto) {
			if n >= need {
				hi = at[w]
				break
			}
			lo = at[w] + 1
		}
	}
	if hi == len(c.pooled) {
		return nil
	}
	return new(c.pooled[hi])
}

// reached is the number of draws whose share of trials counted in upto is q or
// more. Every call makes the same draws.
func (c *clusterTimes) reached(upto [][ways]int32) (reached [ways]int) {
	rng := rand.New(rand.NewPCG(c.r.Seed, c.r.Stream))
	families := uint32(len(upto)) //nolint:gosec // families are far fewer than 2^32
	for range c.r.Draws {
		var in [ways]int
		var of int
		for range families {
			f := rng.Uint32N(families)
			for w, n := range &upto[f] {
				in[w] += int(n)
			}
			of += c.size[f]
		}
		rank := nearestRank(c.q, of)
		for w, n := range in {
			if n >= rank {
				reached[w]++
			}
		}
	}
	return reached
}
