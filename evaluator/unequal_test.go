package evaluator

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestIssue5_UnequalFamiliesAreTestedByCR2AndFlaggedBeyondTwiceTheAverage: the
// error depends on the sizes of the families alone, and so does the flag.
func TestIssue5_UnequalFamiliesAreTestedByCR2AndFlaggedBeyondTwiceTheAverage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sizes []int
		se    string
		times string
	}{
		{[]int{3, 3, 3, 3, 3, 3, 3, 3}, "CR1", ""},
		{[]int{3, 3, 3, 3, 3, 3, 3, 2}, "CR2", ""},
		{[]int{8, 2, 6, 2, 4, 3, 4, 3}, "CR2", ""}, // 8 of 32 in 8 families: exactly twice
		{[]int{9, 2, 6, 2, 4, 3, 3, 3}, "CR2", "2.25"},
	} {
		rng := rand.New(rand.NewPCG(4, 2))
		var cases []TableCase
		for f, n := range tc.sizes {
			for c := range n {
				cases = append(cases, TableCase{ID: fmt.Sprintf("f%d-%d", f, c), Family: fmt.Sprintf("f%d", f)})
			}
		}
		table, err := NewTable([]string{"a", "b"}, cases, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range table.rows {
			table.rows[i] = Row{State: TrialRan}
			table.rows[i].Values[MetricCompletion] = bit(rng.IntN(2) == 0)
		}
		ds, err := table.Differences(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		d := ds[MetricCompletion]
		times := ""
		if d.LargestFamily != nil {
			times = d.LargestFamily.String()
		}
		if d.SEMethod != tc.se || times != tc.times {
			t.Errorf("%v: %s, largest %q; want %s, %q", tc.sizes, d.SEMethod, times, tc.se, tc.times)
		}
	}
}
