package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Oracle is the gold solution of a case as the simulated model knows it.
type Oracle struct {
	// Steps in an order in which one worker can do them: a step stands behind
	// every step that it names in After.
	Steps []Step
	// Criteria are the ids of the case's criteria. Step.Meets names them.
	Criteria []string
	// NeedsPlan is false for an ordinary question: its answer claims nothing
	// beyond itself, and a coordinator answers it without a plan.
	NeedsPlan bool
	// Messages holds the text of owner messages by id, for Since and Until.
	Messages map[string]string
	// Tools holds the action level of each tool (engine.ActionRead, …).
	Tools map[string]string
}

// Step is one step: a tool call (Tool, Args), or final words that whoever is
// responsible puts into the reply that ends its turn (Say, Artifact).
type Step struct {
	ID       string               // letters, digits, ".", "_", "-"
	By       string               // participant id
	Tool     string               //
	Args     json.RawMessage      // JSON object
	Say      string               //
	Artifact *engine.ArtifactText //
	After    []string             // ids of earlier steps that must be done before
	Meets    []string             // criteria that this step serves
	Report   bool                 // holds the report of the work
	Since    string               // id of the owner message that makes the step known; "" from the start
	Until    string               // id of the owner message that makes it obsolete; "" never
}

// gold is a checked oracle. It is read-only.
type gold struct {
	steps    []step
	index    map[string]int
	criteria []string
	plan     bool
	messages map[string]string
	tools    map[string]string
}

// step is a Step with canonical arguments.
type step struct {
	Step
	canon string
}

func (s *step) words() bool { return s.Tool == "" }

// same reports whether a call is exactly this step's.
func (s *step) same(tool, canon string) bool { return s.Tool == tool && s.canon == canon }

// set is a set of step ids.
type set map[string]bool

func (s set) add(ids ...string) {
	for _, id := range ids {
		s[id] = true
	}
}

var stepID = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// compile checks the oracle and copies what it needs. The error lists every
// fault.
func compile(o Oracle) (*gold, error) {
	g := &gold{index: map[string]int{}, criteria: slices.Clone(o.Criteria), plan: o.NeedsPlan, messages: map[string]string{}, tools: map[string]string{}}
	for id, text := range o.Messages {
		g.messages[id] = text
	}
	for name, action := range o.Tools {
		g.tools[name] = action
	}
	var faults []error
	for i := range o.Steps {
		st, err := g.check(o.Steps[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("step %d (%q): %w", i+1, o.Steps[i].ID, err))
			continue
		}
		g.index[st.ID] = len(g.steps)
		g.steps = append(g.steps, st)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	return g, nil
}

func (g *gold) check(s Step) (step, error) {
	if !stepID.MatchString(s.ID) {
		return step{}, errors.New("the id may hold letters, digits, dot, underscore and hyphen only")
	}
	if _, twice := g.index[s.ID]; twice {
		return step{}, errors.New("the id is used twice")
	}
	if s.By == "" {
		return step{}, errors.New("nobody is responsible")
	}
	if (s.Tool == "") == (s.Say == "" && s.Artifact == nil) {
		return step{}, errors.New("a step calls a tool or says something, and not both")
	}
	for _, id := range s.After {
		if _, ok := g.index[id]; !ok {
			return step{}, fmt.Errorf("it comes after %q, which is no earlier step", id)
		}
	}
	for _, c := range s.Meets {
		if !slices.Contains(g.criteria, c) {
			return step{}, fmt.Errorf("it meets %q, which is no criterion", c)
		}
	}
	for _, id := range []string{s.Since, s.Until} {
		if text, ok := g.messages[id]; id != "" && (!ok || strings.TrimSpace(text) == "") {
			return step{}, fmt.Errorf("owner message %q has no text", id)
		} else if id != "" && !stepID.MatchString(id) {
			return step{}, fmt.Errorf("owner message %q: the id may hold what step ids hold", id)
		}
	}
	st := step{Step: s}
	if s.Tool != "" {
		args := s.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		canon, err := engine.CanonicalJSON(args)
		if err != nil {
			return step{}, err
		}
		if canon[0] != '{' {
			return step{}, errors.New("the arguments are no JSON object")
		}
		st.canon = string(canon)
	}
	return st, nil
}

// at returns the step of an id, nil when there is none.
func (g *gold) at(id string) *step {
	i, ok := g.index[id]
	if !ok {
		return nil
	}
	return &g.steps[i]
}

// turns lists, sorted, the owner messages among texts that change what is in
// force.
func (g *gold) turns(texts []string) []string {
	out := set{}
	for i := range g.steps {
		for _, id := range []string{g.steps[i].Since, g.steps[i].Until} {
			if id != "" && g.seen(id, texts) {
				out.add(id)
			}
		}
	}
	return sortedKeys(out)
}

// seen reports whether one of the owner's texts is the message of this id.
func (g *gold) seen(id string, texts []string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, g.messages[id]) })
}

func (g *gold) obsolete(s *step, texts []string) bool {
	return s.Until != "" && g.seen(s.Until, texts)
}

// inForce lists the steps that hold when the owner has said these texts.
func (g *gold) inForce(texts []string) []*step {
	var out []*step
	for i := range g.steps {
		s := &g.steps[i]
		if (s.Since == "" || g.seen(s.Since, texts)) && !g.obsolete(s, texts) {
			out = append(out, s)
		}
	}
	return out
}
