package evaluator

import (
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// corrects reports whether an owner message of this type is a correction
// (qualification Q1).
func corrects(msgType string) bool {
	switch msgType {
	case engine.MsgCorrection, engine.MsgRedirect, engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover:
		return true
	}
	return false
}

// corrections counts distinct owner messages. Without a single owner record
// the channel was not recorded: unknown, not zero.
func (s *TrialScore) corrections(t *trace.Trace) {
	if len(t.Owners) == 0 {
		s.lack("owner_corrections", "no owner message is recorded")
		return
	}
	firstClaim := -1
	for i := range t.Events {
		if t.Events[i].Kind == eventClaim {
			firstClaim = t.Events[i].N
			break
		}
	}
	c := Corrections{ByType: map[string]int{}}
	seen := map[string]bool{}
	for i := range t.Owners {
		o := &t.Owners[i]
		if !corrects(o.Type) || seen[o.ID] {
			continue
		}
		seen[o.ID] = true
		s.CorrectionLines = append(s.CorrectionLines, o.N+1)
		c.Count++
		c.ByType[o.Type]++
		if firstClaim >= 0 && o.N > firstClaim {
			c.AfterClaim++
		}
	}
	s.Corrections = &c
}

func (s *TrialScore) latency(t *trace.Trace) {
	switch {
	case s.Evidence == EvidenceRecorded:
		s.lack("latency", "the calls were replayed: times are recorded, not measured")
		return
	case len(t.Owners) == 0:
		s.lack("latency", "no owner message is recorded")
		return
	case s.Termination == TermInfrastructure || s.Termination == TermHarnessError:
		s.lack("latency", "the trial was ended by the harness (%s)", s.Termination)
		return
	}
	first := t.Owners[0].AtUS
	for i := range t.Owners {
		first = min(first, t.Owners[i].AtUS)
	}
	l := Latency{US: t.End.AtUS - first, Censored: cutByLimit(s.Termination)}
	var queue int64
	queued := true
	for i := range t.Ops {
		o := &t.Ops[i]
		if notDispatched(o) {
			continue
		}
		if o.Kind == string(engine.OpTool) {
			l.ToolUS += o.AtUS - o.StartUS
		} else {
			l.ModelUS += o.AtUS - o.StartUS
		}
		if o.ReadyUS == nil {
			queued = false
		} else {
			queue += o.StartUS - *o.ReadyUS
		}
	}
	if queued {
		l.QueueUS = &queue
	} else {
		s.lack("queue_time", "the trace does not record when operations were committed")
	}
	s.Latency = &l
}

// notDispatched reports whether an operation never became a call.
func notDispatched(o *trace.Op) bool { return o.Outcome == opRefused || o.Outcome == opReleased }

// Outcomes of operations that were never dispatched.
const (
	opRefused  = "refused"
	opReleased = "released"
)

// cost takes the account from the end record and splits it by role from the
// operations; a split that does not add up to the account is not shown.
func (s *TrialScore) cost(t *trace.Trace) {
	m := t.End.Money
	s.Cost = Cost{Charged: m.Charged, Held: m.Held, Unknown: m.Unknown}
	charged, held := map[string]int64{}, map[string]int64{}
	var sumCharged, sumHeld int64
	for i := range t.Ops {
		o := &t.Ops[i]
		if !notDispatched(o) {
			s.Calls[o.Kind]++
		}
		if o.Kind == string(engine.OpTool) && o.Charged == 0 && o.Held == 0 {
			continue // tools without a price belong to no cost role
		}
		if o.Charged != 0 {
			charged[o.Role] += o.Charged
			sumCharged += o.Charged
		}
		if o.Held != 0 {
			held[o.Role] += o.Held
			sumHeld += o.Held
		}
	}
	if sumCharged != m.Charged || sumHeld != m.Held {
		s.lack("cost.by_role", "operations add up to %d charged and %d held, the account says %d and %d", sumCharged, sumHeld, m.Charged, m.Held)
		return
	}
	s.Cost.ByRole, s.Cost.HeldByRole = charged, held
}

// Kinds under which the simulated model's faults are counted when the record
// names none.
const (
	FaultMissingUsage = "missing_usage"
	FaultLostReply    = "lost_reply"
	FaultUnnamed      = "unnamed"
)

// sourceBound is the usage source of a call charged at its bound because the
// provider omitted usage (R38).
const sourceBound = "bound"

// faults counts planted faults that fired, once per operation: those that the
// records name, and the simulated model's, which show in the operation itself.
func (s *TrialScore) faults(t *trace.Trace, facts CaseFacts) {
	counted := map[string]bool{} // op and fault
	fire := func(op, id, kind string) {
		if kind == "" {
			if kind = facts.Faults[id]; kind == "" {
				kind = FaultUnnamed
			}
		}
		if k := op + "\x00" + id + "\x00" + kind; !counted[k] {
			counted[k] = true
			s.Faults[kind]++
		}
	}
	for i := range t.Ops {
		o := &t.Ops[i]
		if o.Fault != "" || o.FaultKind != "" {
			fire(o.Op, o.Fault, o.FaultKind)
			continue
		}
		if o.Kind == string(engine.OpTool) || s.Evidence == EvidenceRecorded || s.Evidence == EvidenceMeasured {
			continue
		}
		if o.Outcome == outcomeUnknown {
			s.Faults[FaultLostReply]++
		} else if o.Source == sourceBound {
			s.Faults[FaultMissingUsage]++
		}
	}
	for i := range t.Effects {
		if e := &t.Effects[i]; e.Fault != "" || e.FaultKind != "" {
			fire(e.Op, e.Fault, e.FaultKind)
		}
	}
}

const outcomeUnknown = "unknown"
