package host_test

import (
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/engine"
)

// One question asked and answered in a room that has had many: AcceptEvent and
// Tick, in memory. Figures: ns/op at each length of history.
func BenchmarkQuestion(b *testing.B) {
	for _, history := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			x := begin(b)
			x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope { return decide(q, engine.DecideAnswer, "so") }
			n := 0
			ask := func() {
				id := fmt.Sprint("q", n)
				n++
				x.h.post(id, "ana", engine.MsgRequest, "and "+id+"?")
				x.accept(id)
				x.tick()
			}
			for range history {
				ask()
			}
			b.ResetTimer()
			for b.Loop() {
				ask()
			}
		})
	}
}
