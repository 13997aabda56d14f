package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// maxRetries is how many errors, and how many unknown outcomes, of one step in
// a row are met with another attempt.
const maxRetries = 2

// turn answers a turn/v1 call: the next tool call, or the reply that ends the
// turn.
func (p *Provider) turn(d dice, call model.Call) answer {
	c := p.gold.readConversation(call)
	requests := c.under()
	if len(requests) == 0 {
		return reply(engine.StatusBlocked, "Nothing was asked of me.", nil)
	}
	if again, ok := c.unanswered(); ok {
		return answer{call: &again}
	}
	w := p.survey(c, requests)
	if again, ok := p.walk(w, call); ok {
		return answer{call: &again}
	}
	next, state := w.next(d, p.rates.SkipStep, call.Tools)
	if state == stepFailing {
		return reply(engine.StatusBlocked, "I could not do it: "+next.Tool+" answers with errors.", nil)
	}
	if (state == stepReady || len(w.elsewhere()) > 0) && d.hit(p.rates.EarlyClaim, "early_claim") {
		return p.closing(d, w)
	}
	if state == stepReady {
		use := toolUse{tool: next.Tool, args: next.canon}
		if d.hit(p.rates.WrongArgument, "wrong_argument") {
			use.args = spoil(d, use, call.Tools)
		}
		return answer{call: &use}
	}
	if state == stepNoTool {
		return reply(engine.StatusBlocked, "I cannot do it: I have no tool "+next.Tool+".", nil)
	}
	if len(w.elsewhere()) > 0 {
		return p.handOver(d, w)
	}
	return p.closing(d, w)
}

// unanswered is the first call whose result is missing and which was not made
// again: what became of it is not known here, so it is made again, unchanged.
func (c *conversation) unanswered() (toolUse, bool) {
	for i, k := range c.calls {
		if k.outcome == "" && !slices.ContainsFunc(c.calls[i+1:], k.same) {
			return toolUse{tool: k.tool, args: k.args}, true
		}
	}
	return toolUse{}, false
}

// work is what the conversation says about the steps asked for.
type work struct {
	*conversation
	g        *gold
	epoch    int     // position of the newest request
	asked    []*step // in oracle order: mine and, for hand-over, those of colleagues
	todo     []*step // my tool calls not done before the epoch
	settled  set     // done, or believed to be
	failures map[string]int
	recheck  bool // nothing of mine is wrong: colleagues look again
}

// survey finds what is asked, and what was done before the newest request.
func (p *Provider) survey(c *conversation, requests []request) *work {
	w := &work{conversation: c, g: p.gold, epoch: requests[len(requests)-1].at, settled: set{}, failures: map[string]int{}}
	asked, owner := set{}, false
	for _, r := range requests {
		if r.owner {
			owner = true
			for _, s := range p.gold.inForce(c.known) {
				asked.add(s.ID)
			}
		}
		asked.add(r.marks.todo...)
		asked.add(r.marks.later...)
		w.settled.add(r.marks.report...)
	}
	for i := range p.gold.steps {
		if s := &p.gold.steps[i]; asked[s.ID] && !p.gold.obsolete(s, c.known) {
			w.asked = append(w.asked, s)
		}
	}
	suspects := w.lookBack()
	for _, r := range requests {
		for id := range suspects {
			if r.owner && w.spoken(r, id) {
				delete(suspects, id) // the owner means this one: it is as good as missing
			}
		}
	}
	for _, s := range w.asked {
		if w.mine(s) && !s.words() && !w.settled[s.ID] {
			w.todo = append(w.todo, s)
		}
	}
	certain := slices.DeleteFunc(slices.Clone(w.todo), func(s *step) bool { return suspects[s.ID] })
	if len(certain) > 0 || len(w.pendingElsewhere()) > 0 {
		w.todo = certain
		w.settled.add(sortedKeys(suspects)...)
	}
	earlier := len(c.ends) > 0 || len(c.calls) > 0 && c.calls[0].at < w.epoch
	w.recheck = owner && earlier && len(w.todo) == 0 && len(w.pendingElsewhere()) == 0 && requests[len(requests)-1].owner
	return w
}

// spoken reports that a request of the owner speaks of a step, after its call.
func (w *work) spoken(r request, id string) bool {
	s := w.g.at(id)
	for _, k := range slices.Backward(w.calls) {
		if s.same(k.tool, k.canon) {
			return k.at < r.at && s.spokenOf(r.text) > 0
		}
	}
	return false
}

// lookBack settles the steps whose exact call came back ok before the epoch,
// and returns those whose exact call has an unknown outcome.
func (w *work) lookBack() (suspects set) {
	suspects = set{}
	for _, want := range []string{engine.ToolOK, engine.ToolUnknown} {
		for _, k := range w.calls {
			if k.at >= w.epoch || k.outcome != want {
				continue
			}
			for i := range w.g.steps {
				s := &w.g.steps[i]
				if !s.same(k.tool, k.canon) || w.settled[s.ID] || suspects[s.ID] {
					continue
				}
				if want == engine.ToolOK {
					w.settled.add(s.ID)
				} else {
					suspects.add(s.ID)
				}
				break
			}
		}
	}
	return suspects
}

func (w *work) mine(s *step) bool { return s.By == w.me || !w.colleagues[s.By] }

// walk follows the calls since the epoch over the work to do. It returns a
// call that must be made again because its outcome is unknown.
func (p *Provider) walk(w *work, call model.Call) (toolUse, bool) {
	last, unknowns := -1, 0
	for i, k := range w.calls {
		if k.at < w.epoch || k.outcome == "" {
			continue
		}
		j := w.serves(k)
		if k.outcome == engine.ToolError {
			if j >= 0 {
				w.failures[w.todo[j].ID]++
			}
			continue
		}
		if k.outcome == engine.ToolUnknown {
			over := dice{key: p.key, op: prefixDigest(call, k.resultAt)}
			if unknowns < maxRetries && over.hit(p.rates.RetryAfterUnknown, "retry_after_unknown") {
				unknowns++
				if i == len(w.calls)-1 {
					return toolUse{tool: k.tool, args: k.args}, true
				}
				continue
			}
		}
		unknowns = 0
		if j >= 0 {
			w.settled.add(w.todo[j].ID)
			last = max(last, j)
		}
	}
	for _, s := range w.todo[:max(last, 0)] { // could have been done and was left out: believed done
		if offered(call.Tools, s.Tool) && w.ready(s) {
			w.settled.add(s.ID)
		}
	}
	return toolUse{}, false
}

// serves finds the step that a call was meant for: the first open one that it
// is exactly, else the first open one of its tool, else -1.
func (w *work) serves(k seenCall) int {
	open := func(s *step) bool { return !w.settled[s.ID] }
	exact := slices.IndexFunc(w.todo, func(s *step) bool { return open(s) && s.same(k.tool, k.canon) })
	if exact >= 0 {
		return exact
	}
	return slices.IndexFunc(w.todo, func(s *step) bool { return open(s) && s.Tool == k.tool })
}

// States of the step that comes next.
type stepState int

const (
	stepNone    stepState = iota // nothing of mine is left that could be done now
	stepReady                    // call its tool
	stepFailing                  // it was tried too often
	stepNoTool                   // its tool is not offered
)

// next is the first open step of mine whose predecessors are done. A skipped
// one counts as done from here on.
func (w *work) next(d dice, skip Rate, tools []model.Tool) (*step, stepState) {
	var without *step
	for _, waiting := range []bool{true, false} {
		if !waiting && (without != nil || len(w.elsewhere()) > 0) {
			break // what these wait for may not be passed over
		}
		for _, s := range w.todo {
			if w.settled[s.ID] || waiting && !w.ready(s) {
				continue
			}
			if !offered(tools, s.Tool) {
				if without == nil {
					without = s
				}
				continue
			}
			if w.failures[s.ID] > maxRetries {
				return s, stepFailing
			}
			if d.hit(skip, "skip_step:"+s.ID) {
				w.settled.add(s.ID)
				continue
			}
			return s, stepReady
		}
	}
	if without != nil {
		return without, stepNoTool
	}
	return nil, stepNone
}

func offered(tools []model.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t model.Tool) bool { return t.Name == name })
}

// ready reports that nothing asked for must be done before the step.
func (w *work) ready(s *step) bool {
	for _, id := range s.After {
		before := w.g.at(id)
		if w.settled[id] || !slices.Contains(w.asked, before) || before.words() && w.mine(before) && w.ready(before) {
			continue
		}
		if !w.mine(before) && !slices.Contains(w.elsewhere(), before) {
			continue // told done, or handed over
		}
		return false
	}
	return true
}

// prefixDigest names the conversation up to a message, ids of calls apart.
func prefixDigest(call model.Call, upTo int) string {
	h := sha256.New()
	writeParts(h, "qualify/prefix/v1", call.System)
	for _, m := range call.Messages[:upTo+1] {
		writeParts(h, m.Role, m.From, m.Text)
		for _, c := range m.ToolCalls {
			writeParts(h, c.Tool, c.Args)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
