package campaigns

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/modes"
)

// Runner runs one campaign in one process.
type Runner struct {
	Plan      *Plan
	Store     store.Store
	Providers func(ProviderKey) (model.Provider, error)
	Clock     runtime.Clock
	Gauge     *runtime.Gauge // counts calls and trials in flight
	Parallel  int            // trials at once; 0 takes the plan's
	MaxMicros int64          // --max-usd: caps the campaign further; 0 is no cap
	Crash     *runtime.Crash // crash points of tests
	Owner     Owner          // this process, as the one that runs the campaign
	// Log keeps the run to a seal log, beside the registration; nil does not. A
	// run on a holdout needs one.
	Log SealedRun
	// OnTrial is called once for every trial with a terminal record, never
	// concurrently: for those that this process runs as they close, for those
	// that were stored before once no trial is left to run, so that a resume
	// does not read every trace before it goes on.
	OnTrial func(Done) error
	// OnShared is told, before anything runs, of a shared ceiling whose limit is
	// not the ceiling_usd of this campaign: another one has set it, or a grant.
	OnShared func(store.Ceiling)
	// Document makes the run document once the run has finished or stopped, while
	// this process still owns the campaign; it is stored with the campaign. Nil
	// stores none.
	Document func(context.Context, *Outcome) ([]byte, error)
	// Progress is told the counts after each closed trial, and once for trials
	// that were stored before; never concurrently.
	Progress func(Progress)
}

// Done is a finished trial.
type Done struct {
	Seat   Seat
	Record store.Trial
	Trace  []byte
	// Read is the same trace, read; nil for trials that were closed
	// before this run.
	Read *trace.Trace
}

// Progress counts trials of the campaign, controls left out.
type Progress struct {
	Done, Planned int
	Ran           int // of Done: run by this process, not taken from the store
	Arms          []ArmProgress
	Ceiling       store.Ceiling
}

// ArmProgress counts one arm's trials.
type ArmProgress struct {
	Name          string
	Done, Planned int
}

// Outcome of a run that is finished or stopped by a limit.
type Outcome struct {
	// Dropped are the triples that a limit cut, in every arm, in schedule
	// order; empty when the campaign is finished.
	Dropped    []Triple
	Ceiling    store.Ceiling
	SetDigest  string // trace set digest over all trials, controls too
	Allotments []store.Allotment
	Waits      Waits
}

// Run runs or resumes the campaign until every planned trial has a terminal
// record. Errors: *LimitError, with the outcome of what has run beside it;
// *OwnedError when another process runs it, and store.ErrLeaseLost when one has
// taken it over (nothing is written after that); ErrCancelled; ctx's error when
// interrupted (state saved); store.ErrExists when another plan is stored under
// this id; and faults.
func (r *Runner) Run(ctx context.Context) (out *Outcome, err error) {
	if r.Owner.Token == "" {
		return r.run(ctx)
	}
	owned, t, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	return r.run(owned)
}

func (r *Runner) run(ctx context.Context) (*Outcome, error) {
	p := r.Plan
	if r.Log == nil && p.Holdout() {
		return nil, ErrHoldout
	}
	have, err := r.Store.Campaign(ctx, p.ID)
	switch {
	case err == nil && have.Status == StatusCancelled:
		return nil, fmt.Errorf("campaign %s: %w", p.ID, ErrCancelled)
	case err == nil || errors.Is(err, store.ErrNotFound):
	default:
		return nil, fmt.Errorf("campaign %s: %w", p.ID, err)
	}
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	if have.Status == StatusStopped { // it goes on
		if err := r.Store.SetCampaignStatus(ctx, p.ID, StatusRunning, nil); err != nil {
			return nil, fmt.Errorf("campaign %s: %w", p.ID, err)
		}
	}
	if err := r.seal(ctx); err != nil {
		return nil, err
	}
	camp := store.Campaign{ID: p.ID, Name: p.Name, PlanDigest: p.PlanDigest, Registration: p.Registration, Plan: p.Canonical, Status: StatusRunning}
	if err := r.Store.PutCampaign(ctx, camp); err != nil {
		return nil, fmt.Errorf("campaign %s: %w", p.ID, err)
	}
	if err := r.ensureCeiling(ctx); err != nil {
		return nil, err
	}
	run := &running{Runner: r, done: map[string]int{}, batches: p.batches()}
	if err := run.load(ctx); err != nil {
		return nil, err
	}
	if err := run.begin(ctx); err != nil {
		return nil, err
	}
	err = run.schedule(ctx)
	var limit *LimitError
	if err == nil || errors.As(err, &limit) {
		if lerr := run.after(ctx); lerr != nil {
			return nil, lerr
		}
	}
	if err == nil || errors.As(err, &limit) {
		if rerr := run.readStored(ctx); rerr != nil {
			return nil, rerr
		}
	}
	switch {
	case errors.As(err, &limit):
		out, ferr := run.finish(ctx, "stopped")
		if ferr != nil {
			return nil, ferr
		}
		return out, err
	case err != nil:
		return nil, err
	}
	return run.finish(ctx, "done")
}

// CeilingName is the account that the campaign's allotments are drawn from.
func (p *Plan) CeilingName() string {
	switch {
	case p.Funds == store.FundsReal:
		return OwnerCeiling
	case p.Ceiling != "":
		return p.Ceiling
	default:
		return OwnCeiling(p.ID)
	}
}

// Shared reports whether the campaign draws on a simulated ceiling that it has
// named, and that others may name too.
func (p *Plan) Shared() bool { return p.Funds == store.FundsSimulated && p.Ceiling != "" }

// OwnerCeiling is the one real ceiling of a store; DefaultOwnerMicros is its
// limit until the owner grants another (DESIGN §4).
const (
	OwnerCeiling       = "owner"
	DefaultOwnerMicros = 5_000_000
)

func (r *Runner) ensureCeiling(ctx context.Context) error {
	p := r.Plan
	limit := p.CapMicros
	if p.Funds == store.FundsReal {
		limit = DefaultOwnerMicros
	}
	c, err := r.Store.EnsureCeiling(ctx, p.CeilingName(), p.Funds, limit)
	if err != nil {
		return fmt.Errorf("ceiling %s: %w", p.CeilingName(), err)
	}
	if p.Shared() && c.Limit != limit && r.OnShared != nil {
		r.OnShared(c)
	}
	own := p.Funds == store.FundsSimulated && p.Ceiling == ""
	if own && c.Limit != limit && limit >= c.Charged+c.Held {
		// The campaign's own simulated ceiling follows its file.
		if _, err := r.Store.Grant(ctx, c.Name, c.Funds, limit, nil); err != nil {
			return fmt.Errorf("ceiling %s: %w", c.Name, err)
		}
	}
	return nil
}

// running is the state of one Run; mu guards the maps and the callbacks.
type running struct {
	*Runner
	mu      sync.Mutex
	records map[string]*store.Trial     // terminal records by key; never changed
	set     []trace.SetEntry            // of the reported trials
	done    map[string]int              // reported trials by arm
	stored  []Seat                      // closed before this run, their traces not read yet
	untold  bool                        // there are such that Progress has not been told of
	settled map[string]*store.Allotment // released before this run, by id
	purse   *purse
	waits   Waits // of the goroutine that starts trials
	batches batches
	ran     int // of those, trials that this process ran, controls left out
}

func (r *running) load(ctx context.Context) error {
	trials, err := r.Store.Trials(ctx, r.Plan.ID)
	if err != nil {
		return fmt.Errorf("trials of %s: %w", r.Plan.ID, err)
	}
	r.records = make(map[string]*store.Trial, len(trials))
	for i := range trials {
		if t := &trials[i]; t.Status == TrialClosed {
			r.records[t.Key] = t
		}
	}
	as, err := r.Store.Allotments(ctx, r.Plan.ID)
	if err != nil {
		return fmt.Errorf("allotments of %s: %w", r.Plan.ID, err)
	}
	r.purse = newPurse(as)
	r.settled = make(map[string]*store.Allotment, len(as))
	for i := range as {
		if as[i].Released {
			r.settled[as[i].ID] = &as[i]
		}
	}
	return nil
}

// controlSeats are the control arms, one trial per case, without money.
func (p *Plan) controlSeats() []Seat {
	if !p.Controls {
		return nil
	}
	var out []Seat
	for _, mode := range []string{modes.NameDoNothing, modes.NameClaimOnly} {
		for _, c := range p.cases {
			out = append(out, Seat{Case: c, Arm: Arm{Name: controlPrefix + mode, Mode: mode, Options: map[string]string{}}, Order: -1})
		}
	}
	return out
}

// Seats lists every planned trial, controls first, in schedule order.
func (p *Plan) Seats() []Seat {
	out := p.controlSeats()
	for _, t := range p.Schedule() {
		out = append(out, t.seats()...)
	}
	return out
}

func (t Triple) seats() []Seat {
	out := make([]Seat, 0, len(t.Arms))
	for _, a := range t.Arms {
		out = append(out, Seat{Case: t.Case, Arm: a, Index: t.Index, Order: t.Order})
	}
	return out
}

// schedule starts trials in order, at most Parallel at once. The head of the
// queue waits for its allotment; the run stops only when nothing that is
// running could still release enough.
func (r *running) schedule(ctx context.Context) error {
	parallel := r.Parallel
	if parallel <= 0 {
		parallel = r.Plan.Parallel
	}
	g, gctx := errgroup.WithContext(ctx)
	at := make(places, parallel)
	err := r.startAll(gctx, at, func(s Seat, allotment string, after func() error) {
		g.Go(func() error {
			defer at.free()
			if err := r.seat(gctx, s, allotment); err != nil {
				return err
			}
			return after()
		})
	})
	if werr := g.Wait(); werr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = werr
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// places are those for trials that run at once: as many as it has room for.
type places chan struct{}

// take waits for a free place.
func (p places) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p places) free() { <-p }

// empty waits until no trial runs.
func (p places) empty(ctx context.Context) error {
	for range cap(p) {
		if err := p.take(ctx); err != nil {
			return err
		}
	}
	for range cap(p) {
		p.free()
	}
	return nil
}

// startAll starts every trial that is not closed, each in a place of its own.
func (r *running) startAll(ctx context.Context, at places, start func(Seat, string, func() error)) error {
	for _, s := range r.Plan.controlSeats() {
		if err := at.take(ctx); err != nil {
			return err
		}
		start(s, "", func() error { return nil })
	}
	batch := -1
	for _, t := range r.Plan.Schedule() {
		if b := r.batches.of(t); b != batch {
			batch = b
			if err := r.between(ctx, batch, at); err != nil {
				return err
			}
		}
		done, err := r.tripleDone(ctx, t)
		if err != nil {
			return err
		}
		if done {
			for _, s := range t.seats() {
				r.keep(s)
			}
			continue
		}
		if err := r.tell(ctx); err != nil {
			return err
		}
		// The place comes before the money: nothing is held that cannot be used yet,
		// and with one place a triple has returned its rest before the next one draws.
		if err := at.take(ctx); err != nil {
			return err
		}
		id, err := r.allot(ctx, t)
		if err != nil {
			return err
		}
		left := len(t.Arms)
		var mu sync.Mutex
		for i, s := range t.seats() {
			if i > 0 {
				if err := at.take(ctx); err != nil {
					return err
				}
			}
			start(s, id, func() error {
				mu.Lock()
				defer mu.Unlock()
				if left--; left > 0 {
					return nil
				}
				defer r.purse.end(t.Sum())
				return r.release(ctx, t, id)
			})
		}
	}
	return nil
}

// tripleDone reports whether all trials are closed and their money is settled;
// a triple that a crash left between the two is released here.
func (r *running) tripleDone(ctx context.Context, t Triple) (bool, error) {
	r.mu.Lock()
	all := true
	for _, s := range t.seats() {
		_, ok := r.records[s.Key()]
		all = all && ok
	}
	r.mu.Unlock()
	if !all {
		return false, nil
	}
	id := r.allotmentID(t)
	if a, ok := r.settled[id]; ok {
		if charged, keep := r.cost(t); a.Charged == charged && a.Kept == keep {
			return true, nil
		}
	}
	return true, r.release(ctx, t, id)
}

func (r *running) allotmentID(t Triple) string { return r.Plan.ID + "/" + t.ID() }

// seat runs one trial, or takes it from the store when it is closed.
func (r *running) seat(ctx context.Context, s Seat, allotment string) error {
	r.mu.Lock()
	_, closed := r.records[s.Key()]
	r.mu.Unlock()
	if closed {
		r.keep(s)
		return nil
	}
	res, of, err := r.runTrial(ctx, s, allotment)
	if err != nil {
		return err
	}
	// The trace is stored before the record that says the trial is closed, so
	// that a crash in between exports again, to equal bytes.
	if err := r.Store.PutTrace(ctx, r.Plan.ID, s.Key(), of.read.Digest(), of.content); err != nil {
		return fmt.Errorf("trace of %s: %w", s.Key(), err)
	}
	rec := r.Plan.closed(s, allotment, res, of.read.Digest())
	if err := r.Store.PutTrial(ctx, rec); err != nil {
		return fmt.Errorf("record of %s: %w", s.Key(), err)
	}
	if !s.Control() {
		r.mu.Lock()
		r.ran++
		r.mu.Unlock()
	}
	return r.report(ctx, Done{Seat: s, Record: rec, Trace: of.content, Read: of.read})
}

// keep counts a trial that was closed before this run and leaves its trace for
// readStored.
func (r *running) keep(s Seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = append(r.stored, s)
	r.count(s, *r.records[s.Key()])
	r.untold = r.untold || !s.Control()
}

// readStored reports the trials that were closed before this run.
func (r *running) readStored(ctx context.Context) error {
	if err := r.tell(ctx); err != nil {
		return err
	}
	if r.OnTrial == nil {
		return nil
	}
	for _, s := range r.stored {
		_, content, err := r.Store.Trace(ctx, r.Plan.ID, s.Key())
		if err != nil {
			return fmt.Errorf("trace of %s: %w", s.Key(), err)
		}
		if err := r.OnTrial(Done{Seat: s, Record: *r.records[s.Key()], Trace: content}); err != nil {
			return err
		}
	}
	return nil
}

// count enters a closed trial into the set and the figures of progress; the
// caller holds mu.
func (r *running) count(s Seat, rec store.Trial) {
	r.set = append(r.set, trace.SetEntry{Key: rec.Key, Digest: rec.TraceDigest})
	r.done[s.Arm.Name]++
}

// report hands on a trial that this process has closed.
func (r *running) report(ctx context.Context, d Done) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := d.Record // without its trace
	r.records[d.Seat.Key()] = &rec
	r.count(d.Seat, rec)
	if r.OnTrial != nil {
		if err := r.OnTrial(d); err != nil {
			return err
		}
	}
	if d.Seat.Control() {
		return nil
	}
	return r.progress(ctx, false)
}

// tell tells Progress of trials that were closed before this run.
func (r *running) tell(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.untold {
		return nil
	}
	return r.progress(ctx, false)
}

// progress tells the counts; the caller holds mu. The counts of a finished
// campaign are told once, as the last thing.
func (r *running) progress(ctx context.Context, last bool) error {
	r.untold = false
	if r.Progress == nil {
		return nil
	}
	pr := Progress{Ran: r.ran}
	for _, a := range r.Plan.Arms {
		ap := ArmProgress{Name: a.Name, Done: r.done[a.Name], Planned: len(r.Plan.cases) * r.Plan.Trials}
		pr.Done += ap.Done
		pr.Planned += ap.Planned
		pr.Arms = append(pr.Arms, ap)
	}
	c, err := r.ceiling(ctx)
	if err != nil {
		return err
	}
	pr.Ceiling = c
	if (pr.Done == pr.Planned) != last {
		return nil // finish tells that all is done, when all money is settled
	}
	r.Progress(pr)
	return nil
}

func (r *running) ceiling(ctx context.Context) (store.Ceiling, error) {
	all, err := r.Store.Ceilings(ctx)
	if err != nil {
		return store.Ceiling{}, fmt.Errorf("ceilings: %w", err)
	}
	for _, c := range all {
		if c.Name == r.Plan.CeilingName() && c.Funds == r.Plan.Funds {
			return c, nil
		}
	}
	return store.Ceiling{}, fmt.Errorf("ceiling %s: %w", r.Plan.CeilingName(), store.ErrNotFound)
}

func (r *running) finish(ctx context.Context, status string) (*Outcome, error) {
	r.mu.Lock()
	err := r.progress(ctx, true)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := r.Store.SetCampaignStatus(ctx, r.Plan.ID, status, nil); err != nil {
		return nil, fmt.Errorf("campaign %s: %w", r.Plan.ID, err)
	}
	c, err := r.ceiling(ctx)
	if err != nil {
		return nil, err
	}
	allotments, err := r.Store.Allotments(ctx, r.Plan.ID)
	if err != nil {
		return nil, fmt.Errorf("allotments: %w", err)
	}
	digest, err := trace.SetDigest(r.set)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Ceiling: c, SetDigest: digest, Allotments: allotments, Waits: r.waits}
	for _, t := range r.Plan.Schedule() {
		for _, s := range t.seats() {
			if _, closed := r.records[s.Key()]; !closed {
				out.Dropped = append(out.Dropped, t)
				break
			}
		}
	}
	if r.Log != nil {
		if err := r.Log.End(ctx, status, digest); err != nil {
			return nil, fmt.Errorf("campaign %s: %w", r.Plan.ID, err)
		}
	}
	return out, r.keepDocument(ctx, status, out)
}

// keepDocument stores the run document with the campaign.
func (r *running) keepDocument(ctx context.Context, status string, out *Outcome) error {
	if r.Document == nil {
		return nil
	}
	doc, err := r.Document(ctx, out)
	if err != nil {
		return err
	}
	if err := r.Store.SetCampaignStatus(ctx, r.Plan.ID, status, doc); err != nil {
		return fmt.Errorf("campaign %s: %w", r.Plan.ID, err)
	}
	return nil
}
