package simulated

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// pendingElsewhere lists the steps of colleagues that are asked for, by order
// of the oracle, and neither told done nor handed over.
//
// What a colleague's request calls "later" is open by that word; what the owner
// asks for is open unless the conversation says otherwise.
func (w *work) pendingElsewhere() []*step {
	named := set{}
	owner := false
	for _, r := range w.under() {
		named.add(r.marks.later...)
		owner = owner || r.owner
	}
	var out []*step
	for _, s := range w.asked {
		if w.mine(s) {
			continue
		}
		if named[s.ID] || owner && !w.told[s.ID] && !w.handed[s.ID] {
			out = append(out, s)
		}
	}
	return out
}

// elsewhere lists the steps to hand over: the pending ones or, when the owner
// came back and nothing else is wrong, all that colleagues are responsible for.
func (w *work) elsewhere() []*step {
	if !w.recheck {
		return w.pendingElsewhere()
	}
	var out []*step
	for _, s := range w.asked {
		if !w.mine(s) {
			out = append(out, s)
		}
	}
	return out
}

// final collects the last words that are mine and due. ready restricts them to
// those whose predecessors are done.
func (p *Provider) final(d dice, w *work, ready bool) (says []string, artifact *engine.ArtifactText) {
	for _, s := range w.asked {
		if !s.words() || !w.mine(s) || ready && !w.ready(s) {
			continue
		}
		if d.hit(p.rates.SkipStep, "skip_step:"+s.ID) {
			continue
		}
		if s.Say != "" {
			says = append(says, s.Say)
		}
		if s.Artifact != nil {
			artifact = &engine.ArtifactText{Name: s.Artifact.Name, Text: s.Artifact.Text}
		}
	}
	return says, artifact
}

// closing ends the turn with a claim. Its text is the final words, or the
// names of the tools used.
func (p *Provider) closing(d dice, w *work) answer {
	says, artifact := p.final(d, w, false)
	if len(says) == 0 {
		says = append(says, w.summary())
	}
	text := strings.Join(says, "\n")
	if w.round > 1 {
		text = fmt.Sprintf("%s\n(Round %d.)", text, w.round)
		if artifact != nil {
			artifact.Text = fmt.Sprintf("%s\n\nRevision %d.", artifact.Text, w.round)
		}
	}
	status := engine.StatusDone
	if !p.gold.plan && !slices.ContainsFunc(w.asked, func(s *step) bool { return !s.words() }) {
		status = engine.StatusAnswer
	}
	return reply(status, text, artifact)
}

func (w *work) summary() string {
	var names []string
	for _, s := range w.asked {
		if w.mine(s) && !s.words() && w.settled[s.ID] && !slices.Contains(names, s.Tool) {
			names = append(names, s.Tool)
		}
	}
	if len(names) == 0 {
		return "Done; there was nothing left to do."
	}
	return "Done: " + strings.Join(names, ", ") + "."
}

// handOver ends the turn by starting the colleague who comes next, with what
// is to be done, what is done and what comes afterwards.
func (p *Provider) handOver(d dice, w *work) answer {
	rest := w.elsewhere()
	first := rest[0]
	for _, s := range rest {
		if w.readyFor(s, rest) {
			first = s
			break
		}
	}
	says, artifact := p.final(d, w, true)
	var todo, later, done []string
	started := false
	stopped := false
	for _, s := range w.asked {
		if !slices.Contains(rest, s) {
			if w.mine(s) && !w.settled[s.ID] && (!s.words() || !w.ready(s)) {
				later = append(later, s.ID)
				stopped = stopped || started
			} else {
				done = append(done, s.ID)
			}
			continue
		}
		started = started || s == first
		if started && !stopped && s.By == first.By {
			todo = append(todo, s.ID)
			continue
		}
		stopped = stopped || started
		later = append(later, s.ID)
	}
	for _, id := range sortedKeys(w.told) {
		if !slices.Contains(done, id) && !slices.Contains(todo, id) && !slices.Contains(later, id) {
			done = append(done, id)
		}
	}
	parts := says
	parts = append(parts, fmt.Sprintf("@%s please go on: %s", first.By, mark("todo", todo)))
	if len(done) > 0 {
		parts = append(parts, "This is done: "+mark("done", done))
	}
	if heard := w.g.turns(w.known); len(heard) > 0 {
		parts = append(parts, "The owner has changed the order: "+mark("heard", heard))
	}
	if len(later) > 0 {
		parts = append(parts, "This comes after you: "+mark("later", later))
	}
	return reply(engine.StatusAnswer, strings.Join(parts, "\n"), artifact)
}

// readyFor reports that a colleague's step waits for none of the rest, and for
// nothing of mine that is open.
func (w *work) readyFor(s *step, rest []*step) bool {
	for _, id := range s.After {
		before := w.g.at(id)
		if slices.Contains(rest, before) {
			return false
		}
		if slices.Contains(w.todo, before) && !w.settled[id] {
			return false
		}
	}
	return true
}

// reply is a TurnReply as an answer.
func reply(status, text string, artifact *engine.ArtifactText) answer {
	return document(engine.TurnReply{Status: status, Text: text, Artifact: artifact})
}

// document writes a reply of any format. The types of engine/protocol.go
// always have a JSON form unless a raw message in them is broken, which replies
// never carry.
func document(v any) answer {
	b, err := engine.Canonical(v)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return answer{text: string(b)}
}

func sortedKeys(s set) []string { return slices.Sorted(maps.Keys(s)) }
