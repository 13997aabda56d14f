package modes

import "github.com/agentrooms/qualify/engine"

// EndReason says why a mode stops after a turn was blocked with a code. Money
// that is used up or halted is budget; a limit of the room or of the turn is
// step_limit; what only a person can settle (an outcome nobody knows,
// authority taken away, a cost without bound) is escalated; everything else,
// the agent's own word included (code ""), is gave_up.
func EndReason(code string) string {
	switch code {
	case engine.CodeBudgetExhausted, engine.CodeBudgetHalted:
		return engine.EndBudget
	case engine.CodeLimitReached:
		return engine.EndStepLimit
	case engine.CodeUncertain, engine.CodeForbidden, engine.CodeUnboundedCost:
		return engine.EndEscalated
	default:
		return engine.EndGaveUp
	}
}

// End is the command for EndReason(code).
func End(code string) engine.Command {
	return engine.Command{Kind: engine.CmdEnd, End: &engine.End{Reason: EndReason(code)}}
}
