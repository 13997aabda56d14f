package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Step is one admitted step of a plan version (R8).
type Step struct {
	Key            string   `json:"key"`
	TaskID         string   `json:"task_id"`
	Digest         string   `json:"digest"` // taskDigest (R30)
	Participant    string   `json:"participant"`
	Instruction    string   `json:"instruction"`
	ExpectedOutput string   `json:"expected_output"`
	ArtifactKind   string   `json:"artifact_kind,omitempty"`
	Deps           []string `json:"deps"` // step keys, sorted
	ActionLevel    string   `json:"action_level"`
	Tools          []string `json:"tools"`    // sorted
	Criteria       []string `json:"criteria"` // sorted
	Report         bool     `json:"report,omitempty"`
	Retained       bool     `json:"retained,omitempty"` // keeps a completed task (R29)
}

// Plan is one immutable plan version of an objective (R7, R8).
type Plan struct {
	Objective              string `json:"objective"`
	Version                int    `json:"version"`     // from 1
	Predecessor            int    `json:"predecessor"` // version - 1
	BoundObjectiveRevision int    `json:"bound_objective_revision"`
	BoundControlRevision   int    `json:"bound_control_revision"`
	Cause                  string `json:"cause"` // event the plan answers
	Steps                  []Step `json:"steps"` // in dependency order
}

// taskDigest is the digest of what a task is (R30): participant, instruction,
// expected output, artifact kind, action level, sorted tools, ids of the tasks
// it depends on, sorted criteria, and whether it is the report. The key, plan
// and status are outside, so a new id upstream changes the digest downstream.
func taskDigest(s Step, depTasks []string) (string, error) {
	deps := slices.Sorted(slices.Values(depTasks))
	b, err := engine.Canonical(struct {
		Participant    string   `json:"participant"`
		Instruction    string   `json:"instruction"`
		ExpectedOutput string   `json:"expectedOutput"`
		ArtifactKind   string   `json:"artifactKind"`
		ActionLevel    string   `json:"actionLevel"`
		Tools          []string `json:"tools"`
		Deps           []string `json:"deps"`
		Criteria       []string `json:"criteria"`
		Report         bool     `json:"report"`
	}{s.Participant, s.Instruction, s.ExpectedOutput, s.ArtifactKind, s.ActionLevel, sorted(s.Tools), deps, sorted(s.Criteria), s.Report})
	if err != nil {
		return "", fmt.Errorf("task digest of step %s: %w", s.Key, err)
	}
	return engine.Digest(b), nil
}

// sorted is a sorted copy without repeats, never nil.
func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	out = slices.Compact(out)
	if out == nil {
		out = []string{}
	}
	return out
}

// succeed checks that next may follow head as the current plan (R32): the same
// version with the same steps is a replay (false, nil), the successor names
// head as its predecessor (true, nil), all else is CONFLICT.
func succeed(head *Plan, next Plan) (bool, error) {
	version := 0
	if head != nil {
		version = head.Version
		if next.Version == version {
			a, err := engine.Canonical(head.Steps)
			if err != nil {
				return false, err
			}
			b, err := engine.Canonical(next.Steps)
			if err != nil {
				return false, err
			}
			if string(a) == string(b) {
				return false, nil
			}
			return false, engine.Errorf(engine.CodeConflict, "plan version %d exists with other steps", version)
		}
	}
	if next.Version != version+1 || next.Predecessor != version {
		return false, engine.Errorf(engine.CodeConflict, "plan version %d with predecessor %d cannot follow version %d", next.Version, next.Predecessor, version)
	}
	return true, nil
}
