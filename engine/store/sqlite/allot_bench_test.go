package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// BenchmarkAllot measures a grant and its release on a ceiling from which one
// campaign has drawn so many allotments before: the time must not depend on it.
func BenchmarkAllot(b *testing.B) {
	for _, before := range []int{0, 10_000, 200_000} {
		b.Run(fmt.Sprintf("before=%d", before), func(b *testing.B) {
			s := openAt(b, filepath.Join(b.TempDir(), "s.db"), sqlite.Options{Create: true})
			if err := drawn(b.Context(), s, before); err != nil {
				b.Fatal(err)
			}
			n := before
			for b.Loop() {
				if err := drawOne(b.Context(), s, n); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "allotments/s")
		})
	}
}

// drawn makes so many allotments of one campaign, released, many at once.
func drawn(ctx context.Context, s store.Store, n int) error {
	if _, err := s.EnsureCeiling(ctx, "main", store.FundsSimulated, 1<<50); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(256)
	for i := range n {
		g.Go(func() error { return drawOne(ctx, s, i) })
	}
	return g.Wait()
}

func drawOne(ctx context.Context, s store.Store, i int) error {
	id := fmt.Sprintf("c/%d", i)
	_, err := s.Allot(ctx, store.Allotment{ID: id, Ceiling: "main", Funds: store.FundsSimulated, Campaign: "c", Sum: 1000, CampaignCap: 1 << 40})
	if err == nil {
		_, err = s.Release(ctx, id, 10, 0)
	}
	return err
}

// BenchmarkFence measures what the check of a lease costs a write: the writes of
// BenchmarkCommit, which share transactions, without fences, under one, and
// under those of eight campaigns.
func BenchmarkFence(b *testing.B) {
	for _, rooms := range []int{1, 8, 64} {
		for _, fences := range []int{0, 1, 8} {
			if fences > rooms {
				continue
			}
			b.Run(fmt.Sprintf("rooms=%d/fences=%d", rooms, fences), func(b *testing.B) {
				s := openAt(b, filepath.Join(b.TempDir(), "s.db"), sqlite.Options{Create: true})
				leases := make([]store.Fence, fences)
				for i := range leases {
					leases[i] = store.Fence{Name: fmt.Sprint("campaign/c", i), Token: "t"}
					if _, err := s.AcquireLease(b.Context(), leases[i].Name, leases[i].Token, "bench", time.Hour); err != nil {
						b.Fatal(err)
					}
				}
				benchmarkWrites(b, s, rooms, func(i int) context.Context {
					if fences == 0 {
						return b.Context()
					}
					return store.WithFence(b.Context(), leases[i%fences])
				})
			})
		}
	}
}
