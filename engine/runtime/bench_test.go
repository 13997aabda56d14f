package runtime_test

import (
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// pulse is a machine with a state of constant size: a chain of model calls.
type pulse struct {
	N    int `json:"n"`
	Left int `json:"left"`
}

func (p *pulse) Version() string           { return "pulse@1" }
func (p *pulse) Snapshot() ([]byte, error) { return engine.Canonical(p) }
func (p *pulse) Restore([]byte) error      { return nil }

func (p *pulse) Handle(ev engine.Event) ([]engine.Command, error) {
	if ev.Kind == engine.EvStarted || p.Left == 0 {
		return nil, nil
	}
	p.N++
	p.Left--
	return []engine.Command{{Kind: engine.CmdModel, Call: &engine.Call{
		Key:  engine.OpKey{Kind: engine.OpAgent, Cause: "pulse", Ordinal: p.N},
		Role: engine.RoleAgent, Agent: "a",
		Request: &engine.Request{Format: engine.FormatTurn, System: engine.Plain("You are: a"), Messages: []engine.Message{{Role: engine.MsgUser, Text: engine.Plain("beat")}}},
	}}}, nil
}

// BenchmarkEvents measures the runtime alone, per event, on the memory store;
// the cost must not grow with the length of the room.
func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("calls=%d", n), func(b *testing.B) {
			s := scene{script: map[string][]turn{"a": {}}, limits: runtime.Limits{BudgetMicros: 1 << 50}}
			for b.Loop() {
				cfg := s.config(b, memory.New(memory.Options{}), &model.MemoryJournal{})
				cfg.Machine = func() (engine.Machine, error) { return &pulse{Left: n}, nil }
				if _, err := runtime.Run(b.Context(), cfg); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*b.N), "ns/call")
		})
	}
}
