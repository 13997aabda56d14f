package planner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// metered counts the bytes that a room writes with each commit, and stops the
// room after a number of events.
type metered struct {
	store.Rooms
	limit int
	bytes []int
	at    []time.Time
}

var errEnough = errors.New("enough events")

func (m *metered) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	if len(m.bytes) == m.limit {
		return nil, errEnough
	}
	n := len(c.Row.Event) + len(c.Row.Commands) + 4*64
	for i := range c.Ops {
		n += len(c.Ops[i].Request) + 200
	}
	for i := range c.Receipts {
		n += len(c.Receipts[i].Result) + 200
	}
	for i := range c.Blobs {
		n += len(c.Blobs[i].Content)
	}
	for i := range c.Outbox {
		n += len(c.Outbox[i].Body)
	}
	for _, e := range c.Index {
		n += len(e.Space) + len(e.Key) + len(e.Value)
	}
	done, err := m.Rooms.Commit(ctx, c)
	m.bytes, m.at = append(m.bytes, n), append(m.at, time.Now())
	return done, err
}

// PutSnapshot counts what a snapshot writes with the commit before it.
func (m *metered) PutSnapshot(ctx context.Context, room string, s store.Snapshot) error {
	m.bytes[len(m.bytes)-1] += len(s.State)
	return m.Rooms.PutSnapshot(ctx, room, s)
}

// client asks for the next piece of work whenever the last one is claimed, and
// corrects every third.
type client struct{ said, done int }

func (o *client) Fold(e engine.LogEntry) {
	if e.Event.Kind == engine.EvOwnerMessage {
		o.said++
	}
	for _, c := range e.Commands {
		if c.Kind == engine.CmdClaim {
			o.done++
		}
	}
}

func (o *client) Next() (engine.OwnerSay, bool) {
	if o.said > o.done {
		return engine.OwnerSay{}, false
	}
	kind := engine.MsgRequest
	if o.said%3 == 2 {
		kind = engine.MsgCorrection
	}
	return say(fmt.Sprintf("m%d", o.said), kind, fmt.Sprintf("please do piece %d of the work", o.said), 0), true
}

func (o *client) Exhausted() bool { return false }

// longRoom plays a room of n events without an end.
func longRoom(t testing.TB, n int) *metered {
	t.Helper()
	s := scene{
		work: done, verdict: always("met"), budget: 1 << 50,
		plan: func(req engine.PlanRequest) any {
			k := fmt.Sprint(req.PlanVersion + 1)
			decision := engine.DecideRevisePlan
			if req.PlanVersion == 0 {
				decision = engine.DecideObjective
			}
			return proposal(req, decision, planStep("report"+k, "writer", true))
		},
	}
	m := &metered{Rooms: memory.New(memory.Options{}), limit: n}
	cfg := s.config(t, m, &model.MemoryJournal{}, false, nil)
	cfg.Owner = func(engine.World) (engine.Owner, error) { return &client{}, nil }
	cfg.Limits.Revisions = n + 10
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errEnough) {
		t.Fatalf("%d events: %v", len(m.bytes), err)
	}
	return m
}

// around is the mean bytes of the events [from, to), and their median time.
func (m *metered) around(from, to int) (bytes float64, took time.Duration) {
	sum := 0
	var gaps []time.Duration
	for i := from; i < to; i++ {
		sum += m.bytes[i]
		gaps = append(gaps, m.at[i].Sub(m.at[i-1]))
	}
	slices.Sort(gaps)
	// The four events of a piece of work differ, so the middle half is averaged.
	var total time.Duration
	for _, g := range gaps[len(gaps)/4 : 3*len(gaps)/4] {
		total += g
	}
	return float64(sum) / float64(to-from), total / time.Duration(len(gaps)/2)
}

// The state holds open work and windows of fixed size (32 messages, 48
// superseded tasks), which are all but full after 100 events of short pieces
// of work; so the bytes that an event writes do not grow with the room.
func TestBytesPerEventDoNotGrowWithTheRoom(t *testing.T) {
	t.Parallel()
	m := longRoom(t, 3000)
	early, _ := m.around(60, 140)
	late, _ := m.around(2900, 2980)
	t.Logf("%.0f and %.0f bytes an event", early, late)
	if late > 1.2*early {
		t.Fatalf("%.0f bytes an event around event 100, %.0f around event 2,940: %.2f times", early, late, late/early)
	}
}

// BenchmarkEventOfALongRoom compares handling and committing an event in a
// room of 100 events with one of 10,000, in time and in bytes written; both
// ratios are to stay within 1.2. The short rooms are played between the
// thousands of the long one, so that both meet the same machine.
func BenchmarkEventOfALongRoom(b *testing.B) {
	longRoom(b, 2000) // warm
	var early, late []float64
	var sizes []float64
	for b.Loop() {
		m := longRoom(b, 10_060)
		lb, lt := m.around(9_940, 10_060)
		late = append(late, float64(lt.Nanoseconds()))
		for range 10 {
			m := longRoom(b, 161)
			eb, et := m.around(60, 160)
			early, sizes = append(early, float64(et.Nanoseconds())), append(sizes, lb/eb)
		}
	}
	slices.Sort(early)
	slices.Sort(late)
	e, l := early[len(early)/2], late[len(late)/2]
	b.ReportMetric(e, "ns/event@100")
	b.ReportMetric(l, "ns/event@10000")
	b.ReportMetric(l/e, "time-ratio")
	b.ReportMetric(sizes[0], "bytes-ratio")
}
