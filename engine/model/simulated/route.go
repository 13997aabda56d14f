package simulated

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// route answers a route/v1 call with one of the candidates, or none.
//
// A message that makes steps known goes to whoever is responsible for the first
// of them; else a correction to whoever is responsible for the step it seems to
// be about, and any other message to whoever is for the first step in force.
func (p *Provider) route(call model.Call) answer {
	var req engine.RouteRequest
	if err := json.Unmarshal([]byte(lastRequest(call)), &req); err != nil {
		return document(map[string]string{"error": "the request holds no route request"})
	}
	candidates := set{}
	for _, c := range req.Candidates {
		candidates.add(c.ID)
	}
	var steps []*step
	if corrects(req.Message.Type) && len(p.gold.turns([]string{req.Message.Text})) == 0 {
		steps = p.gold.concerned(req.Message.Text)
	} else {
		steps = p.gold.opened(req.Message.Text)
	}
	for _, s := range steps {
		if candidates[s.By] {
			return document(engine.RouteReply{Participant: s.By, Reason: "responsible for " + s.name()})
		}
	}
	return document(engine.RouteReply{Reason: "nobody here is responsible"})
}

// corrects reports whether a message type counts as an owner correction.
func corrects(kind string) bool {
	return slices.Contains([]string{engine.MsgCorrection, engine.MsgRedirect, engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover}, kind)
}

// opened lists the steps in force after a message, those that it makes known
// first.
func (g *gold) opened(text string) []*step {
	var fresh, rest []*step
	for _, s := range g.inForce([]string{text}) {
		if s.Since != "" {
			fresh = append(fresh, s)
		} else {
			rest = append(rest, s)
		}
	}
	return append(fresh, rest...)
}

// concerned lists all steps by how much a message speaks of them, best first;
// words shared with the tool's name count least. Among equals, what changes
// something comes before what reads, then the order of the oracle holds. What
// the owner said before is not shown to a router, so steps not yet in force
// count too.
func (g *gold) concerned(text string) []*step {
	said := set{}
	said.add(split(text)...)
	score := map[string]int{}
	steps := make([]*step, len(g.steps))
	for i := range g.steps {
		s := &g.steps[i]
		steps[i] = s
		score[s.ID] = 2 * (2*s.spokenOf(text) + shared(said, split(s.Tool)))
		if g.tools[s.Tool] != engine.ActionRead {
			score[s.ID]++
		}
	}
	slices.SortStableFunc(steps, func(a, b *step) int { return score[b.ID] - score[a.ID] })
	return steps
}

// spokenOf counts the argument values of the step, and the name of its artifact,
// that a text speaks of: names them or, when they are short, shares a word with
// them.
func (s *step) spokenOf(text string) int {
	said := set{}
	said.add(split(text)...)
	text, n := strings.ToLower(text), 0
	for _, v := range s.values() {
		v = strings.ToLower(v)
		if len(v) > 1 && strings.Contains(text, v) || len(v) <= longestValue && shared(said, split(v)) > 0 {
			n++
		}
	}
	return n
}

func shared(said set, words []string) int {
	seen, n := set{}, 0
	for _, w := range words {
		if said[w] && !seen[w] {
			n++
		}
		seen.add(w)
	}
	return n
}

// longestValue bounds the argument values that identify something, in bytes;
// longer ones are prose and share words with any message.
const longestValue = 24

// values are the arguments of the step and its artifact's name.
func (s *step) values() []string {
	var out []string
	if s.Artifact != nil {
		out = append(out, s.Artifact.Name)
	}
	if s.words() {
		return out
	}
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(s.canon), &args) != nil {
		return out
	}
	for _, raw := range args {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		out = append(out, text)
	}
	return out
}

// split lists the words of a text in lower case: runs of letters and digits of
// at least two characters.
func split(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(w string) bool { return len(w) < 2 })
}
