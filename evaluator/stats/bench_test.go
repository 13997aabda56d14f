package stats

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkMillionTrials summarises 1,000,000 scored trials (two arms of
// 500,000 paired trials: 100,000 cases of 5 in 2,000 families) as they come,
// into moments of cases and times of families, and compares the arms: paired
// difference, sign flips, Fieller ratio, 10,000 bootstrap draws of the
// difference and of p95. The limit is 1 GB for the process.
func BenchmarkMillionTrials(b *testing.B) {
	const families, casesOf, trials = 2000, 50, 5
	b.ReportAllocs()
	for range b.N {
		rng := rand.New(rand.NewPCG(1, 1))
		cases := make([]CaseMoments, 0, families*casesOf)
		totals := make([]FamilyTotals, families)
		times := make([]FamilyDurations, families)
		for f := range families {
			name := fmt.Sprintf("family %04d", f)
			totals[f].Family, times[f].Family = name, name
			for range casesOf {
				c := CaseMoments{Family: name}
				for range trials {
					x, y := float64(rng.IntN(2)), float64(rng.IntN(2))
					c.Add(x, y)
					totals[f].A += 1000 + 100*rng.Float64()
					totals[f].B += 900 + 100*rng.Float64()
					times[f].Times = append(times[f].Times, Duration{US: 1 + int64(rng.ExpFloat64()*1e6)})
				}
				cases = append(cases, c)
			}
		}
		pairs := CasePairs(cases)
		if _, err := SplitPairs(cases); err != nil {
			b.Fatal(err)
		}
		if _, err := PairedDifference(pairs, .95); err != nil {
			b.Fatal(err)
		}
		sums, err := FamilySums(pairs)
		if err != nil {
			b.Fatal(err)
		}
		r := Resampling{Draws: DefaultDraws, Seed: 1}
		if _, err := ClusterBootstrap(sums, .95, r); err != nil {
			b.Fatal(err)
		}
		if _, err := SignFlipTest(sums, r); err != nil {
			b.Fatal(err)
		}
		if _, err := FamilyRatio(totals, .95); err != nil {
			b.Fatal(err)
		}
		if _, err := ClusterQuantile(times, .95, .95, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClusterBootstrap(b *testing.B) {
	for _, families := range []int{24, 200, 2000} {
		sums := make([]FamilySum, families)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range sums {
			sums[i] = FamilySum{fmt.Sprint(i), rng.NormFloat64(), float64(1 + rng.IntN(9))}
		}
		b.Run(fmt.Sprint(families, " families"), func(b *testing.B) {
			for range b.N {
				if _, err := ClusterBootstrap(sums, .95, Resampling{Seed: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
