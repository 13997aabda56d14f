package evaluator

import (
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// callCounts are the counts over one recorded trace (formats.md, Counts).
type callCounts struct {
	calls       int
	repeated    int
	reusedIDs   bool
	unanswered  int
	errors      int
	attempted   int
	confirmed   int
	repeatedOK  int // repeated calls where an earlier one succeeded
	duplicates  int
	collateral  int
	unfinished  bool
	needsGround bool // effects confirmed, no ground truth to compare with
}

// countCalls counts one trace. Without a profile only calls, repeated, reused
// ids and unanswered are set. expected are the ground-truth actions of the
// trace's task, nil when nothing is recorded.
func countCalls(rec *trace.Recorded, p *Profile, expected []trace.RecordedAction) (callCounts, error) {
	var c callCounts
	ids := map[string]bool{}
	earlier := map[string]bool{} // call → whether one succeeded
	confirmed := map[string]int{}
	for i := range rec.Calls {
		call := &rec.Calls[i]
		c.calls++
		if call.ID != "" && ids[call.ID] {
			c.reusedIDs = true
		}
		ids[call.ID] = true
		if !call.Answered {
			c.unanswered++
		}
		key := callKey(call)
		done, seen := earlier[key]
		if seen {
			c.repeated++
		}
		if done {
			c.repeatedOK++
		}
		ok := false
		if p != nil && call.Answered {
			if ok = !p.isError(call.Result); !ok {
				c.errors++
			}
		}
		earlier[key] = done || ok
		if p == nil {
			continue
		}
		if w, is := p.Writes[call.Tool]; is {
			c.attempted++
			if ok {
				c.confirmed++
				id, err := identity(call.Tool, call.Args, call.ArgsText, w)
				if err != nil {
					return c, err
				}
				confirmed[id]++
			}
		}
	}
	if p == nil {
		return c, nil
	}
	c.unfinished = !p.ended(rec)
	if len(confirmed) == 0 {
		return c, nil
	}
	if expected == nil {
		c.needsGround = true
		return c, nil
	}
	want, err := expectedWrites(p, expected)
	if err != nil {
		return c, err
	}
	c.duplicates, c.collateral = compareEffects(confirmed, want)
	return c, nil
}

// compareEffects counts confirmed effects beyond the expected multiplicity of
// their identity, and those of identities that are not expected at all. The
// first of an unexpected identity is collateral and no duplicate; its repeats
// are both.
func compareEffects(confirmed, want map[string]int) (duplicates, collateral int) {
	for id, n := range confirmed {
		duplicates += max(0, n-max(1, want[id]))
		if want[id] == 0 {
			collateral += n
		}
	}
	return duplicates, collateral
}

func expectedWrites(p *Profile, actions []trace.RecordedAction) (map[string]int, error) {
	want := map[string]int{}
	for _, a := range actions {
		w, is := p.Writes[a.Tool]
		if !is {
			continue
		}
		id, err := identity(a.Tool, a.Args, "", w)
		if err != nil {
			return nil, err
		}
		want[id]++
	}
	return want, nil
}

// callKey identifies a call by tool and canonical arguments; arguments that
// are no JSON object stand as they are.
func callKey(c *trace.RecordedCall) string {
	if c.Args == nil {
		return c.Tool + "\x00raw\x00" + c.ArgsText
	}
	return c.Tool + "\x00json\x00" + string(c.Args)
}

func identity(tool string, args []byte, text string, w WriteTool) (string, error) {
	if args == nil {
		return tool + "\x00raw\x00" + text, nil
	}
	return engine.EffectIdentity(tool, args, w.Volatile, engine.Target(args, w.Target))
}

// ended reports whether the last message is the user's stop token or the
// result of an ending tool.
func (p *Profile) ended(rec *trace.Recorded) bool {
	if len(rec.Messages) == 0 {
		return false
	}
	last := rec.Messages[len(rec.Messages)-1]
	switch last.Role {
	case "user":
		return p.Ends.UserText != "" && strings.Contains(last.Text, p.Ends.UserText)
	case "tool":
		for _, t := range p.Ends.Tools {
			if last.Tool == t {
				return true
			}
		}
	}
	return false
}
