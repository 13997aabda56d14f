package modes

import "github.com/agentrooms/qualify/engine"

// End is the command for engine.EndReason(code).
func End(code string) engine.Command {
	return engine.Command{Kind: engine.CmdEnd, End: &engine.End{Reason: engine.EndReason(code)}}
}
