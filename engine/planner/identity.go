package planner

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// keptTask is what identity rules need of a task that may be kept.
type keptTask struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	// Completed with an admitted result; every other state needs a fresh
	// identity (R29).
	Completed bool `json:"completed,omitempty"`
	// Planned only: no task exists under the id yet, but what it names is
	// fixed (I5).
	Planned bool `json:"planned,omitempty"`
}

// freshID is the identity of a task that a plan version creates (R10, R31).
func freshID(form Identity, objective string, version int, key string) string {
	if form == IdentityObjective {
		return fmt.Sprintf("objective:%s:%s", objective, key)
	}
	return fmt.Sprintf("objective:%s:%d:%s", objective, version, key)
}

// identify gives each step, in dependency order, its task id and digest, and
// reports identity conflicts (R29-R31). A step with a task id asks to keep
// that task: it must exist, be completed with an admitted result and have the
// same digest. Under IdentityObjective a key used before asks the same.
func identify(c *candidate, steps []Step) ([]engine.PlanIssue, error) {
	var issues []engine.PlanIssue
	ids := map[string]string{} // step key to task id
	used := map[string]string{}
	for i := range steps {
		s := &steps[i]
		asked := s.TaskID
		id := asked
		if id == "" {
			id = freshID(c.spec.Identity, c.objective, c.version, s.Key)
		}
		deps := make([]string, 0, len(s.Deps))
		for _, d := range s.Deps {
			deps = append(deps, ids[d])
		}
		digest, err := taskDigest(*s, deps)
		if err != nil {
			return nil, err
		}
		s.TaskID, s.Digest = id, digest
		ids[s.Key] = id
		if first, twice := used[id]; twice {
			issues = append(issues, engine.PlanIssue{Code: IssueIDConflict, Step: s.Key, Text: fmt.Sprintf("steps %q and %q have one task id", first, s.Key)})
			continue
		}
		used[id] = s.Key
		old := c.kept(id)
		switch {
		case old == nil && asked != "":
			issues = append(issues, engine.PlanIssue{Code: IssueReuse, Step: s.Key, Text: fmt.Sprintf("there is no task %q to keep; leave task_id out for new work", asked)})
		case old == nil:
		case old.Digest != digest:
			issues = append(issues, engine.PlanIssue{Code: IssueIDConflict, Step: s.Key, Text: fmt.Sprintf("task %q was admitted with other content; changed work needs a new identity", id)})
		case old.Planned && asked == "":
		case !old.Completed:
			issues = append(issues, engine.PlanIssue{Code: IssueReuse, Step: s.Key, Text: fmt.Sprintf("task %q has no admitted result; it cannot be kept and needs a new identity", id)})
		default:
			s.Retained = true
		}
	}
	return issues, nil
}
