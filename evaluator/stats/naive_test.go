package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// naiveClusterQuantile draws families of one-digit names, pools and sorts.
func naiveClusterQuantile(fams []FamilyDurations, q, level float64, r Resampling) (lo, hi *int64) {
	rng := rand.New(rand.NewPCG(r.Seed, r.Stream))
	var early, late []int64
	for range r.Draws {
		var atLimit, endless []int64
		for range fams {
			for _, d := range fams[rng.Uint32N(uint32(len(fams)))].Times {
				atLimit = append(atLimit, d.US)
				if d.Censored {
					endless = append(endless, math.MaxInt64)
				} else {
					endless = append(endless, d.US)
				}
			}
		}
		slices.Sort(atLimit)
		slices.Sort(endless)
		rank := int(math.Ceil(q*float64(len(atLimit)) - 1e-9))
		early, late = append(early, atLimit[rank-1]), append(late, endless[rank-1])
	}
	slices.Sort(early)
	slices.Sort(late)
	tail := (1 - level) / 2
	lo = &early[int(math.Ceil(tail*float64(r.Draws)-1e-9))-1]
	var longest int64
	for _, f := range fams {
		for _, d := range f.Times {
			longest = max(longest, d.US)
		}
	}
	if h := late[int(math.Ceil((1-tail)*float64(r.Draws)-1e-9))-1]; h < longest {
		hi = &h
	}
	return lo, hi
}
