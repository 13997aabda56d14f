package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
)

// Folds makes the pure parts of a room. Each function gives a fresh value, at
// its very beginning; they are called again after a lost compare-and-set, on
// a restart and for a replay.
type Folds struct {
	// Name is the room's name in operation ids and idempotency keys. It may
	// differ from the room's id in the store; empty takes the id.
	Name string
	// Machine is required.
	Machine func() (engine.Machine, error)
	// Machines makes machines of other versions, by Version: those that have
	// folded rows of rooms that were upgraded since. Replay folds each row with
	// the machine of its own version. May be nil.
	Machines map[string]func() (engine.Machine, error)
	// World may be nil: the room has no tools.
	World func() (engine.World, error)
	// Owner may be nil: nobody speaks. It is given the fresh world.
	Owner func(engine.World) (engine.Owner, error)
}

// nameOf is the name of the room that the store has under an id.
func (f Folds) nameOf(room string) string { return cmp.Or(f.Name, room) }

// Limits of one room. Zero means no limit, except for the budget: a room
// without money has no priced call.
type Limits struct {
	BudgetMicros int64 // USD micros
	ModelCalls   int   // dispatched model calls
	ToolCalls    int   // dispatched tool calls
	Minutes      int   // trial time; events due later are not delivered
	// Revisions bounds the length of the log, so that a machine that answers
	// every refusal with a new call comes to rest. Zero means 100,000.
	Revisions int
}

const defaultRevisions = 100_000

// Notifier delivers what is said in a room to the outside, at least once and
// in order; it drops repeats by id (R57). An entry whose delivery fails stays
// in the outbox and is tried again after the next message or restart.
type Notifier interface {
	Notify(ctx context.Context, room string, say engine.Say) error
}

// Config of one room.
type Config struct {
	Folds

	Store     store.Rooms
	Room      string      // id in the store
	Salt      []byte      // of blob digests; used when the room is created
	Funds     store.Funds // which money; a measured provider needs real funds
	Allotment string      // recorded with the room

	Provider        model.Provider // nil: a model call is a harness fault
	Prices          model.Prices
	Model           string
	Params          map[string]string
	MaxOutputTokens int

	Limits Limits
	// SendKeys sends idempotency keys to the world. They are computed and
	// recorded either way.
	SendKeys bool
	Clock    Clock
	// Eligible lists the participants authorized now, sorted; it is read just
	// before each commit and put into the event. Nil puts nothing.
	Eligible func() []string
	// Authorized is read again before each dispatch: a call whose agent has
	// lost its authority is refused (R12). Nil authorizes all.
	Authorized func(agent string) bool
	Notifier   Notifier // nil: the outbox is kept, nobody is told

	// Keep has the run remember the room's history and return it, so that the
	// room need not be read back: see Result.History. It costs memory that grows
	// with the room.
	Keep bool

	// SnapshotBytes is the least size of a tail, in bytes of rows since the last
	// snapshot, that is worth a snapshot of a room that goes on; zero means 256
	// KiB. Above it one is written when the room is at rest between two
	// operations and the tail has grown at least as large as the last snapshot.
	// That is one more write of the store, while a restart folds a tail of 256
	// KiB in 10 to 30 ms: an ordinary trial stays below and writes only the
	// snapshot of its close. In a room that stays open, zero means 16 KiB.
	SnapshotBytes int64

	Gauge *Gauge
	Crash *Crash
}

const defaultSnapshotBytes = 256 << 10

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Store == nil:
		return c, errors.New("runtime: no store")
	case c.Room == "":
		return c, errors.New("runtime: no room id")
	case c.Machine == nil:
		return c, errors.New("runtime: no machine")
	case !c.Funds.Valid():
		return c, fmt.Errorf("runtime: funds %q", c.Funds)
	case c.Clock != Virtual && c.Clock != Wall:
		return c, fmt.Errorf("runtime: clock %d", c.Clock)
	case c.Limits.BudgetMicros < 0 || c.Limits.ModelCalls < 0 || c.Limits.ToolCalls < 0 || c.Limits.Minutes < 0 || c.Limits.Revisions < 0:
		return c, fmt.Errorf("runtime: negative limit in %+v", c.Limits)
	case c.SnapshotBytes < 0:
		return c, fmt.Errorf("runtime: snapshots from %d bytes", c.SnapshotBytes)
	}
	if c.Provider != nil && c.Provider.Evidence() == model.Measured {
		if c.Funds != store.FundsReal {
			return c, fmt.Errorf("runtime: provider %s is real and cannot be dispatched on %s funds", c.Provider.Name(), c.Funds)
		}
		if c.Clock == Virtual {
			return c, fmt.Errorf("runtime: provider %s is real and cannot run on virtual time", c.Provider.Name())
		}
	}
	c.Name = c.nameOf(c.Room)
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = defaultSnapshotBytes
	}
	if c.Limits.Revisions == 0 {
		c.Limits.Revisions = defaultRevisions
	}
	return c, nil
}

// Termination words (qualification Q1).
const (
	Completed     = "completed"
	GaveUp        = engine.EndGaveUp
	Escalated     = engine.EndEscalated
	Budget        = engine.EndBudget
	StepLimit     = engine.EndStepLimit
	OwnerPatience = "owner_patience"
	TimeLimit     = "time_limit"
	HarnessError  = "harness_error"
)

// Claim is a claim of completion that stands.
type Claim struct {
	AtUS int64
	By   string
	Text string
}

// Result of a room that is closed.
type Result struct {
	Termination string
	Fault       string // what failed when Termination is HarnessError, one line
	AtUS        int64  // trial time of the close
	Money       engine.Money
	Head        store.Head
	// SnapshotUnused says why the room's stored snapshot was of no use when the
	// run that closed the room loaded it, so that all rows were folded instead: a
	// sign of a damaged store, to be looked into. Empty when it was used, and when
	// there was none.
	SnapshotUnused string
	// Set only by the run that closed the room; Replay tells them at any time.
	Claim      *Claim
	ModelCalls int // dispatched
	ToolCalls  int
	// History is, with Config.Keep, what Replay would return: set by a run that
	// made the room, saw each of its writes succeed, and found the store's
	// account and chain at every commit and at the close where these writes lead.
	// Nil after a resume, a lost compare-and-set, a grant from outside or a fault;
	// then Replay has it.
	History *History
}
