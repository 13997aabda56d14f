package planner

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/agentrooms/qualify/engine"
)

// Spec is what a planner is built from.
type Spec struct {
	engine.RoomSpec

	// Coordinator is the participant id that speaks for the planner and owns
	// its reasoner calls. Default "coordinator".
	Coordinator string
	// Reviewers is how many reviewers, no two of one agent identity, must find
	// every criterion met. Default 1.
	Reviewers int
	// Objectives is how many objectives may be open at once (R7). Default
	// DefaultObjectives.
	Objectives int
	// Identity chooses the form of task identities (R31). Default IdentityPlan.
	Identity Identity
	// AllowWrite names the tools beyond read and draft that plans may use. The
	// default, none, is seed 000's rule (R11); a host allow-lists by name.
	AllowWrite []string
	// Once stops a specialist at the first call of unknown outcome, until its
	// owner or proof decides: for a host whose calls have effects of their own,
	// so that no work is silently done twice (R45, R66). Without it a lost model
	// call is asked for again in a new operation, as in every mode of a trial,
	// where effects are tools' alone.
	Once bool
	// CoordinatorPrompt and ReviewerPrompt are the system prompts. The
	// machine adds the room's facts (goal, tools) below the first.
	CoordinatorPrompt string
	ReviewerPrompt    string
}

// Identity is a form of task identities (R31).
type Identity string

// Forms of task identities.
const (
	// IdentityPlan scopes an identity to the plan version that created it:
	// objective:<id>:<version>:<key>. A step without task_id is always fresh.
	IdentityPlan Identity = "plan"
	// IdentityObjective is stable in the objective: objective:<id>:<key>. A key
	// used again is the same task, and must obey R29.
	IdentityObjective Identity = "objective"
)

// Options of an arm that FromRoom reads.
const (
	OptionReviewers   = "reviewers"
	OptionCoordinator = "coordinator"
	OptionIdentity    = "task_identity"
	OptionObjectives  = "objectives"
)

// WithOptions returns s with the options of its room spec applied. Errors name
// the option.
func (s Spec) WithOptions() (Spec, error) {
	keys := make([]string, 0, len(s.Options))
	for k := range s.Options {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v := s.Options[k]
		switch k {
		case OptionReviewers:
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > 8 {
				return s, engine.Errorf(engine.CodeValidation, "option %s: %q is not a number from 1 to 8", k, v)
			}
			s.Reviewers = n
		case OptionObjectives:
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > 64 {
				return s, engine.Errorf(engine.CodeValidation, "option %s: %q is not a number from 1 to 64", k, v)
			}
			s.Objectives = n
		case OptionCoordinator:
			if v == "" {
				return s, engine.Errorf(engine.CodeValidation, "option %s is empty", k)
			}
			s.Coordinator = v
		case OptionIdentity:
			s.Identity = Identity(v)
		default:
			return s, engine.Errorf(engine.CodeValidation, "unknown option %q (known: %s, %s, %s, %s)", k, OptionCoordinator, OptionObjectives, OptionReviewers, OptionIdentity)
		}
	}
	return s, nil
}

func (s Spec) withDefaults() Spec {
	if s.Coordinator == "" {
		s.Coordinator = "coordinator"
	}
	if s.Reviewers == 0 {
		s.Reviewers = 1
	}
	if s.Objectives == 0 {
		s.Objectives = DefaultObjectives
	}
	if s.Identity == "" {
		s.Identity = IdentityPlan
	}
	if s.Parallel < 1 {
		s.Parallel = 1
	}
	return s
}

func (s Spec) validate() error {
	bad := func(format string, args ...any) error {
		return engine.Errorf(engine.CodeValidation, "planner: "+format, args...)
	}
	if s.Identity != IdentityPlan && s.Identity != IdentityObjective {
		return bad("task identity %q is neither %s nor %s", s.Identity, IdentityPlan, IdentityObjective)
	}
	if s.Reviewers < 1 {
		return bad("reviewers must be at least 1, not %d", s.Reviewers)
	}
	if s.Objectives < 1 {
		return bad("objectives must be at least 1, not %d", s.Objectives)
	}
	if len(s.Criteria) == 0 || len(s.Criteria) > 16 {
		return bad("%d criteria; an objective has 1 to 16", len(s.Criteria))
	}
	seen := map[string]bool{s.Owner: true, s.Coordinator: true}
	if s.Owner == "" || s.Owner == s.Coordinator {
		return bad("owner %q must be named and differ from the coordinator", s.Owner)
	}
	for _, a := range s.Agents {
		if a.ID == "" || seen[a.ID] {
			return bad("participant id %q is empty or used twice", a.ID)
		}
		seen[a.ID] = true
	}
	crit := map[string]bool{}
	for _, c := range s.Criteria {
		if c.ID == "" || crit[c.ID] {
			return bad("criterion id %q is empty or used twice", c.ID)
		}
		crit[c.ID] = true
	}
	for _, n := range s.AllowWrite {
		if s.tool(n) == nil {
			return bad("allow-listed tool %q is not a tool of the room", n)
		}
	}
	return nil
}

func (s *Spec) agent(id string) *engine.Participant {
	for i := range s.Agents {
		if s.Agents[i].ID == id {
			return &s.Agents[i]
		}
	}
	return nil
}

func (s *Spec) tool(name string) *engine.ToolSpec {
	for i := range s.Tools {
		if s.Tools[i].Name == name {
			return &s.Tools[i]
		}
	}
	return nil
}

func (s *Spec) criterion(id string) *engine.Criterion {
	for i := range s.Criteria {
		if s.Criteria[i].ID == id {
			return &s.Criteria[i]
		}
	}
	return nil
}

// criteria are the room's criteria of some ids, in the room's order.
func (s *Spec) criteria(ids []string) []engine.Criterion {
	var out []engine.Criterion
	for _, c := range s.Criteria {
		if slices.Contains(ids, c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// coordinatorSystem is the reasoner's system prompt: the host's text, then the
// facts a plan must respect and PlanRequest does not carry.
func (s *Spec) coordinatorSystem() string {
	out := s.CoordinatorPrompt + "\n\n" + engine.PromptYouAre + s.Coordinator + "\nThe owner is: " + s.Owner + "\n\nTools of the room, as \"name (action level): description\":\n"
	for _, t := range s.Tools {
		out += fmt.Sprintf("- %s (%s): %s\n", t.Name, t.Action, t.Description)
	}
	return out
}

func (s *Spec) reviewerSystem(id string) string {
	return s.ReviewerPrompt + "\n\n" + engine.PromptYouAre + id + "\n"
}
