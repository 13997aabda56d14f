package simulated

import "slices"

// Faults of a plan, drawn evenly among those that the plan allows.
const (
	faultParticipant = "unknown_participant" // refused: nobody of that name
	faultCycle       = "cycle"               // refused: a step waits for itself
	faultCriterion   = "uncovered_criterion" // refused: a criterion is covered by no step
	faultForgotten   = "forgotten_step"      // admitted: an oracle step is ordered by nobody
	faultJSON        = "bad_json"            // unreadable
	faultIdentity    = "identity_reuse"      // refused: a task identity that may not be kept
)

// fault plants one fault in a finished plan and returns its kind. Bad JSON is
// left to the caller.
func (b *planner) fault(d dice) string {
	kinds := []string{faultParticipant, faultCycle, faultJSON, faultIdentity}
	bare := b.onlyNew()
	if bare != "" {
		kinds = append(kinds, faultCriterion)
	}
	run := b.spareRun()
	if run >= 0 {
		kinds = append(kinds, faultForgotten)
	}
	kind := kinds[d.below(uint64(len(kinds)), "plan_fault:kind")]
	first := &b.steps[0]
	switch kind {
	case faultParticipant:
		first.Participant = "nobody-known"
	case faultCycle:
		first.Deps = append(first.Deps, first.Key)
	case faultIdentity:
		first.TaskID = b.foreignTask()
	case faultCriterion:
		for i := range b.steps {
			b.steps[i].Criteria = slices.DeleteFunc(b.steps[i].Criteria, func(c string) bool { return c == bare })
		}
	case faultForgotten:
		orders := b.orders[run]
		at := d.below(uint64(len(orders)), "plan_fault:which")
		b.steps[run].Instruction = b.instruction(slices.Delete(slices.Clone(orders), int(at), int(at)+1))
	}
	return kind
}

// onlyNew is a criterion that no retained step covers, "" when there is none.
func (b *planner) onlyNew() string {
	for _, c := range b.req.Criteria {
		kept := false
		for _, k := range b.kept {
			kept = kept || slices.Contains(k.Criteria, c.ID)
		}
		if !kept {
			return c.ID
		}
	}
	return ""
}

// spareRun is the first run of at least two steps, -1 when there is none: one
// of them can be forgotten without an empty order.
func (b *planner) spareRun() int {
	return slices.IndexFunc(b.orders, func(run []*step) bool { return len(run) > 1 })
}

// foreignTask is an identity that the first new step may not carry: that of a
// task with other content, or of none.
func (b *planner) foreignTask() string {
	if len(b.req.Progress) > 0 {
		return b.req.Progress[0].Task
	}
	return "objective:unknown:1:v1s1"
}
