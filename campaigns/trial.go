package campaigns

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Seat is one planned trial: the place of a case, an arm and a trial index.
type Seat struct {
	Case  *corpus.Case
	Arm   Arm
	Index int
	Order int
}

// Key is case/arm/trial.
func (s Seat) Key() string { return TrialKey(s.Case.ID, s.Arm.Name, s.Index) }

// Control reports whether the seat belongs to a control arm.
func (s Seat) Control() bool { return isControl(s.Arm.Mode) }

// Room is the id of the seat's room in the store; operation ids, traces and
// draws use Key instead, so that they do not depend on the campaign's id.
func (p *Plan) Room(s Seat) string { return p.ID + "/" + s.Key() }

// Header is the trace header of a seat.
func (p *Plan) Header(s Seat, machine string) trace.Header {
	l := s.Case.Room.Limits
	return trace.Header{
		Schema: trace.Schema, Campaign: p.PlanDigest, Registration: p.Registration, Arm: s.Arm.Name, Mode: s.Arm.Mode, Case: s.Case.ID,
		Family: s.Case.Family, Split: s.Case.Split, Trial: s.Index, Evidence: p.Evidence, Clock: p.Clock,
		WorldSeed: strconv.FormatUint(p.worldSeed(s), 16), Model: p.Model, Prices: p.PricesDigest, Machine: machine,
		Limits: trace.Limits{BudgetMicros: int64(l.Budget), ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Minutes: l.Minutes},
	}
}

func (p *Plan) worldSeed(s Seat) uint64 { return WorldSeed(p.Seed, s.Case.ID, s.Index) }

// Machine builds a fresh machine for a seat, as its mode would at any restart.
func (p *Plan) Machine(s Seat) (engine.Machine, error) {
	m, ok := p.modes[s.Arm.Mode]
	if !ok {
		return nil, fmt.Errorf("arm %s: mode %q is not in this build", s.Arm.Name, s.Arm.Mode)
	}
	return m.New(s.Case.RoomSpec(s.Arm.Options))
}

func (p *Plan) world(s Seat) (engine.World, error) { return world.New(s.Case, p.worldSeed(s)) }

func (p *Plan) owner(s Seat) func(engine.World) (engine.Owner, error) {
	return func(w engine.World) (engine.Owner, error) {
		ww, ok := w.(*world.World)
		if !ok {
			return nil, fmt.Errorf("owner of %s: the world is a %T, not the simulated one", s.Case.ID, w)
		}
		return world.NewOwner(s.Case, ww)
	}
}

// Folds are the fresh machine, world and owner of a seat, for running and for
// rebuilding.
func (p *Plan) Folds(s Seat) runtime.Folds {
	return runtime.Folds{
		Name:    s.Key(),
		Machine: func() (engine.Machine, error) { return p.Machine(s) },
		World:   func() (engine.World, error) { return p.world(s) },
		Owner:   p.owner(s),
	}
}

// salt is the blob salt of a seat's room: seeded under virtual time, so that
// traces are equal on every machine.
func (p *Plan) salt(s Seat) []byte {
	salt, err := hex.DecodeString(engine.StableID("", "salt", strconv.FormatUint(p.Seed, 10), s.Key()))
	if err != nil {
		panic("stable ids are hex: " + err.Error())
	}
	return salt
}

// ProviderKey tells a provider which trial it serves; only simulated providers
// use it, and no mode sees it.
type ProviderKey struct {
	Seed  uint64
	Case  string
	Trial int
	Salt  string // arm name
}

// runTrial runs or resumes one seat to its close and returns its trace.
func (r *Runner) runTrial(ctx context.Context, s Seat, allotment string) (runtime.Result, closedTrace, error) {
	p := r.Plan
	var provider model.Provider
	var err error
	if !s.Control() {
		provider, err = r.Providers(ProviderKey{Seed: p.Seed, Case: s.Case.ID, Trial: s.Index, Salt: s.Arm.Name})
		if err != nil {
			return runtime.Result{}, closedTrace{}, fmt.Errorf("provider for %s: %w", s.Key(), err)
		}
	}
	l := s.Case.Room.Limits
	cfg := runtime.Config{
		Folds: p.Folds(s), Store: r.Store, Room: p.Room(s), Salt: p.salt(s), Funds: p.Funds, Allotment: allotment,
		Provider: provider, Prices: p.Prices, Model: p.Model, Params: p.Params, MaxOutputTokens: p.MaxOutput,
		Limits:   runtime.Limits{BudgetMicros: int64(l.Budget), ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Minutes: l.Minutes},
		SendKeys: s.Arm.Idempotency, Clock: r.Clock, Gauge: r.Gauge, Crash: r.Crash, Keep: true,
	}
	res, err := runtime.Run(ctx, cfg)
	if err != nil {
		return res, closedTrace{}, fmt.Errorf("trial %s: %w", s.Key(), err)
	}
	of, err := p.traceOf(ctx, r.Store, s, res.History)
	return res, of, err
}

// closedTrace is the trace of a closed trial: as stored, and read.
type closedTrace struct {
	content []byte
	read    *trace.Trace
}

// traceOf is the trace of a trial that has just been closed: from the history
// that its run kept, or from the store's rows when the run was a resumed one.
// The first trial of each case and arm is rebuilt from its rows and read from
// its bytes in any case, and must be the same: see the page of decisions on
// traces from the run.
func (p *Plan) traceOf(ctx context.Context, rooms store.Rooms, s Seat, kept *runtime.History) (closedTrace, error) {
	var of closedTrace
	var err error
	if kept != nil {
		of.content, of.read, err = p.export(s, kept)
		if err != nil || s.Index > 0 {
			return of, err
		}
	}
	again, err := p.Retrace(ctx, rooms, s)
	switch {
	case err != nil:
		return of, err
	case kept == nil:
		of.content = again
	case !bytes.Equal(of.content, again):
		return of, engine.Errorf(engine.CodeConflict,
			"trial %s: the rows in the store fold to another trace than the run had: its mode or world is not deterministic, or the store lost something", s.Key())
	}
	if of.read, err = trace.Read(bytes.NewReader(again)); err != nil {
		return of, fmt.Errorf("trial %s: exported trace: %w", s.Key(), err)
	}
	return of, nil
}

// closed is the record of a finished seat.
func (p *Plan) closed(s Seat, allotment string, res runtime.Result, digest string) store.Trial {
	return store.Trial{
		Campaign: p.ID, Key: s.Key(), Order: s.Order, Arm: s.Arm.Name, Case: s.Case.ID, Index: s.Index,
		Room: p.Room(s), Allotment: allotment, Status: TrialClosed, Termination: res.Termination,
		TraceDigest: digest, Money: res.Money,
	}
}

// TrialClosed is the terminal status of a trial record.
const TrialClosed = "closed"
