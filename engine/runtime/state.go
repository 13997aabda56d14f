package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
)

// phase is where an operation stands between its commit and its event.
type phase int

const (
	waiting   phase = iota // reserved, no dispatch mark
	marked                 // dispatch mark durable, outcome to be found out
	calling                // the call is under way in this process
	returned               // refused, or its receipt is at hand
	delivered              // its event is in the log
)

// operation is the runtime's view of one operation.
type operation struct {
	id       string
	rev      int64
	ordinal  int
	command  int          // place among the commands of its revision
	call     *engine.Call // sealed, texts loaded
	request  []byte       // canonical JSON of call
	digest   string       // of request
	startUS  int64
	reserved int64
	asked    *model.Call // built from call, model operations only

	phase      phase
	body       *body          // set from phase returned on
	receipt    *store.Receipt // nil for refused reservations
	reconciled bool
}

func (o *operation) finishUS() int64 {
	if o.receipt == nil {
		return o.startUS
	}
	return o.receipt.FinishUS
}

// lost reports that the outcome was unknown when the operation returned.
func (o *operation) lost() bool {
	return o.receipt != nil && o.receipt.Outcome == store.OutcomeUnknown
}

// unknown reports that the outcome is unknown still.
func (o *operation) unknown() bool { return o.lost() && !o.reconciled }

// overran reports that the call was charged more than it had reserved.
func (o *operation) overran() bool {
	return o.receipt != nil && o.receipt.ChargedMicros > o.reserved
}

// byCommit orders operations by the commit that made them.
func byCommit(a, b *operation) int {
	return cmp.Or(cmp.Compare(a.rev, b.rev), cmp.Compare(a.ordinal, b.ordinal))
}

type timer struct {
	atUS int64
	rev  int64 // of the row that set it
}

// state is everything that is a function of the room's rows, receipts and
// effects. Running and replaying move it by the same methods.
type state struct {
	name    string // in operation ids
	version string
	machine engine.Machine
	world   engine.World // nil without tools
	owner   engine.Owner // nil when nobody speaks
	tools   map[string]engine.ToolSpec
	texts   *texts

	rev    int64 // newest row, -1 before the first
	digest string
	now    int64 // trial time of the newest row
	// forget keeps nothing of what is settled: the rows hold it, and memory
	// must not grow with them while a room runs. A replay remembers.
	forget bool
	log    []engine.LogEntry

	ops     map[string]*operation
	order   []*operation // by commit
	open    []*operation // those without an event in the log, by commit
	timers  map[string]timer
	effects map[string][]engine.EffectRecord // by operation

	claim      *Claim
	end        string         // reason of the last End that no call followed
	stopped    string         // code of the last refusal that no result followed
	confirmed  map[string]int // known confirmed effects by scope and identity
	modelCalls int            // dispatched
	toolCalls  int
	told       int64 // micros charged by receipts whose event is in the log
}

// newState is a room before its first row. Its machine is not made yet.
func newState(f Folds, rooms store.Rooms, room string, salt []byte) (*state, error) {
	s := &state{
		name: f.nameOf(room), rev: -1, texts: newTexts(rooms, room, salt), tools: map[string]engine.ToolSpec{},
		ops: map[string]*operation{}, timers: map[string]timer{}, effects: map[string][]engine.EffectRecord{}, confirmed: map[string]int{},
	}
	var err error
	if f.World != nil {
		if s.world, err = f.World(); err != nil {
			return nil, fmt.Errorf("make world: %w", err)
		}
		for _, t := range s.world.Tools() {
			s.tools[t.Name] = t
		}
	}
	if f.Owner != nil {
		if s.owner, err = f.Owner(s.world); err != nil {
			return nil, fmt.Errorf("make owner: %w", err)
		}
	}
	return s, nil
}

// step is one event folded, not yet committed.
type step struct {
	event    engine.Event
	commands []engine.Command // requests stripped
	ops      []*operation
	row      store.Row
	snapshot []byte
}

// rowCommand is a command as rows hold it: calls carry the digest of their
// sealed form in place of the request.
type rowCommand struct {
	engine.Command
	Call *rowCall `json:"call,omitempty"`
}

type rowCall struct {
	engine.Call
	RequestDigest string `json:"request_digest"`
}

// fold hands the event to the machine and works out the next row. The state
// itself moves only with adopt. A fault leaves the machine unusable.
func (s *state) fold(ctx context.Context, ev engine.Event) (*step, error) {
	if err := s.texts.sealAll(ev.Texts()); err != nil {
		return nil, err
	}
	st := &step{event: ev}
	st.row = store.Row{Rev: s.rev + 1, Machine: s.version, Prev: s.digest}
	var err error
	if st.row.Event, err = engine.Canonical(ev); err != nil {
		return nil, faultf("event %s: %w", ev.ID, err)
	}
	commands, err := guarded("machine", func() ([]engine.Command, error) { return s.machine.Handle(ev) })
	if err != nil {
		return nil, faultf("machine %s, event %s: %w", s.version, ev.ID, err)
	}
	rows := make([]rowCommand, 0, len(commands))
	for i := range commands {
		c := cloneCommand(commands[i])
		if err := s.checkCommand(&c); err != nil {
			return nil, s.commandFault(ev.ID, i, err)
		}
		texts := c.Texts()
		if err := s.texts.bring(ctx, texts); err != nil {
			return nil, err
		}
		if err := s.texts.sealAll(texts); err != nil {
			return nil, s.commandFault(ev.ID, i, err)
		}
		row := rowCommand{Command: c}
		if c.Call != nil {
			o, err := s.plan(st, i, c.Call)
			if err != nil {
				return nil, s.commandFault(ev.ID, i, err)
			}
			stripped := *c.Call
			stripped.Request = nil
			c.Call = &stripped
			row.Command.Call = nil
			row.Call = &rowCall{Call: stripped, RequestDigest: o.digest}
		}
		rows = append(rows, row)
		st.commands = append(st.commands, c)
	}
	if st.row.Commands, err = engine.Canonical(rows); err != nil {
		return nil, faultf("commands of event %s: %w", ev.ID, err)
	}
	st.row.CommandsDigest = engine.Digest(st.row.Commands)
	st.snapshot, err = guarded("machine", s.machine.Snapshot)
	if err != nil {
		return nil, faultf("machine %s, snapshot after event %s: %w", s.version, ev.ID, err)
	}
	st.row.StateDigest = engine.Digest(st.snapshot)
	st.row.Digest = store.RowDigest(st.row)
	return st, nil
}

func (s *state) commandFault(event string, command int, err error) error {
	return faultf("machine %s, event %s, command %d: %w", s.version, event, command, err)
}

// plan makes the operation of a call.
func (s *state) plan(st *step, command int, call *engine.Call) (*operation, error) {
	request, err := engine.Canonical(call)
	if err != nil {
		return nil, err
	}
	o := s.issue(st, command, call, engine.Digest(request))
	if o == nil {
		return nil, issuedBefore(call.Key)
	}
	o.request = request
	return o, nil
}

// issue makes an operation whose request has the digest; nil when the room
// knows the operation already. What was trimmed away is known to the store.
func (s *state) issue(st *step, command int, call *engine.Call, digest string) *operation {
	o := &operation{
		id: engine.OperationID(s.name, call.Key), rev: st.row.Rev, ordinal: len(st.ops), command: command,
		call: call, digest: digest, startUS: st.event.AtUS,
	}
	again := slices.ContainsFunc(st.ops, func(p *operation) bool { return p.id == o.id })
	if _, ok := s.ops[o.id]; ok || again {
		return nil
	}
	st.ops = append(st.ops, o)
	return o
}

func issuedBefore(key engine.OpKey) error { return fmt.Errorf("operation %+v was issued before", key) }

// adopt moves the state past a committed step. Operations are known from here
// on; their phase is the caller's to set.
func (s *state) adopt(st *step) error {
	ev := &st.event
	s.rev, s.digest, s.now = st.row.Rev, st.row.Digest, ev.AtUS
	if ev.Kind == engine.EvTimer {
		delete(s.timers, ev.Timer)
	}
	if o, ok := s.ops[ev.Op]; ok {
		o.phase = delivered
		if o.receipt != nil {
			s.told += o.receipt.ChargedMicros
		}
		s.open = slices.DeleteFunc(s.open, func(p *operation) bool { return p == o })
		s.stopped = ""
		if ev.Refusal != nil {
			s.stopped = ev.Refusal.Code
		}
		if !o.lost() {
			o.call, o.request, o.asked = nil, nil, nil
			if s.forget {
				o.body, o.receipt = nil, nil
			}
		}
	}
	for i := range st.commands {
		c := &st.commands[i]
		switch {
		case c.Call != nil:
			s.end = ""
		case c.Timer != nil:
			s.timers[c.Timer.ID] = timer{c.Timer.AtUS, st.row.Rev}
		case c.Kind == engine.CmdClaim:
			s.claim = &Claim{AtUS: ev.AtUS, By: c.Claim.By, Text: c.Claim.Text.S}
		case c.Kind == engine.CmdWithdraw:
			s.claim = nil
		case c.End != nil:
			s.end = c.End.Reason
		}
	}
	for _, o := range st.ops {
		s.ops[o.id] = o
		s.order = append(s.order, o)
		s.open = append(s.open, o)
	}
	entry := engine.LogEntry{Rev: st.row.Rev, Event: *ev, Commands: st.commands}
	if !s.forget {
		s.log = append(s.log, entry)
	}
	if s.owner == nil {
		return nil
	}
	_, err := guarded("owner", func() (struct{}, error) { s.owner.Fold(entry); return struct{}{}, nil })
	return err
}

// say is the owner's next message.
func (s *state) say() (engine.OwnerSay, bool) {
	if s.owner == nil {
		return engine.OwnerSay{}, false
	}
	return s.owner.Next()
}

// termination is why the room is at rest.
func (s *state) termination() string {
	switch {
	case s.owner != nil && s.owner.Exhausted():
		return OwnerPatience
	case s.claim != nil:
		return Completed
	case s.end != "":
		return s.end
	case s.stopped == engine.CodeLimitReached:
		return StepLimit
	case s.stopped == engine.CodeBudgetExhausted || s.stopped == engine.CodeBudgetHalted:
		return Budget
	default:
		return GaveUp
	}
}

// checkCommand refuses what no machine may ask for.
func (s *state) checkCommand(c *engine.Command) error {
	if err := checkContent(c); err != nil {
		return err
	}
	ok := true
	switch c.Kind {
	case engine.CmdModel:
		ok = c.Call.Request != nil && c.Call.Tool == nil
	case engine.CmdTool:
		ok = c.Call.Tool != nil && c.Call.Request == nil && c.Call.Key.Kind == engine.OpTool
	case engine.CmdSay:
		ok = c.Say.ID != ""
	case engine.CmdArtifact:
		ok = c.Artifact.Name != ""
	case engine.CmdTimer:
		ok = c.Timer.ID != ""
	case engine.CmdEnd:
		ok = slices.Contains([]string{GaveUp, Escalated, Budget, StepLimit}, c.End.Reason)
	case engine.CmdPost:
		ok = c.Post.ID != ""
	case engine.CmdAnswer:
		ok = c.Answer.Key != "" && c.Answer.Digest != ""
	case engine.CmdClaim, engine.CmdWithdraw, engine.CmdNote:
	}
	if !ok {
		return incomplete(c)
	}
	if c.Call != nil && (c.Call.Key.Kind == "" || c.Call.Key.Cause == "") {
		return errors.New("call without kind or cause")
	}
	return nil
}

// checkContent refuses a command that does not hold what its kind is about. It is
// all that can be said of a command from a stored row, whose call has no request.
func checkContent(c *engine.Command) error {
	var ok bool
	switch c.Kind {
	case engine.CmdModel, engine.CmdTool:
		ok = c.Call != nil
	case engine.CmdSay:
		ok = c.Say != nil
	case engine.CmdClaim:
		ok = c.Claim != nil
	case engine.CmdWithdraw:
		ok = true
	case engine.CmdArtifact:
		ok = c.Artifact != nil
	case engine.CmdTimer:
		ok = c.Timer != nil
	case engine.CmdNote:
		ok = c.Note != nil
	case engine.CmdEnd:
		ok = c.End != nil
	case engine.CmdPost:
		ok = c.Post != nil
	case engine.CmdAnswer:
		ok = c.Answer != nil
	default:
		return fmt.Errorf("command kind %q is unknown", c.Kind)
	}
	if !ok {
		return incomplete(c)
	}
	return nil
}

func incomplete(c *engine.Command) error { return fmt.Errorf("command %s is incomplete", c.Kind) }

// cloneCommand copies what sealing would change, so that a machine's own
// state never moves behind its back.
func cloneCommand(c engine.Command) engine.Command {
	if c.Call != nil {
		call := *c.Call
		if call.Request != nil {
			r := *call.Request
			r.Messages = slices.Clone(r.Messages)
			for i := range r.Messages {
				r.Messages[i].ToolCalls = slices.Clone(r.Messages[i].ToolCalls)
			}
			call.Request = &r
		}
		call.Tool = clonePtr(call.Tool)
		c.Call = &call
	}
	c.Say, c.Claim, c.Artifact = clonePtr(c.Say), clonePtr(c.Claim), clonePtr(c.Artifact)
	c.Timer, c.Note, c.End = clonePtr(c.Timer), clonePtr(c.Note), clonePtr(c.End)
	c.Post, c.Answer = clonePtr(c.Post), clonePtr(c.Answer)
	return c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
