package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
)

// DefaultReportName is the artifact name of a report that its author delivered
// as text.
const DefaultReportName = "report"

// newReport makes the next report version of the objective from the report
// step's result: the artifact if the turn gave one, else its text.
func (m *Machine) newReport(t *turn, o *objective, w *work, end *session.Turn) error {
	text := w.Result
	if end.Artifact != nil {
		text = end.Artifact.Text
	} else if err := m.publish(t, w.Step.Participant, w.Step.TaskID, engine.ArtifactText{Name: DefaultReportName, Text: text}); err != nil {
		return err
	}
	o.ReportVersion++
	o.Report = &report{
		Ref:  engine.ReportRef{Ref: "report:" + o.ID, Version: o.ReportVersion},
		Text: text,
	}
	return nil
}

// judged reports that a valid verdict exists on this version: it is never sent
// to that reviewer again (R51, R53).
func (r *report) judged() bool {
	return r.Verdict != nil || slices.ContainsFunc(r.Slots, func(s slot) bool { return s.Reply != nil })
}

// rebind makes the version ready for a review of another plan's source set.
// Calls of the old binding that are still in flight find nobody waiting.
func (r *report) rebind() {
	r.Ref.SourceSet = ""
	for i := range r.Slots {
		r.Slots[i].Key, r.Slots[i].Held = nil, false
	}
}

// asking reports a review call in flight.
func (r *report) asking() bool {
	return slices.ContainsFunc(r.Slots, func(s slot) bool { return s.Key != nil && !s.Held })
}

// sourceSet is the digest of the sorted (ref, version, digest) of what the
// report rests on: the results of all current tasks (R51).
func (m *Machine) sourceSet(o *objective) (string, error) {
	type source struct {
		Ref     string `json:"ref"`
		Version int    `json:"version"`
		Digest  string `json:"digest"`
	}
	sources := make([]source, 0, len(o.Works))
	for _, w := range o.Works {
		sources = append(sources, source{Ref: w.Step.TaskID, Version: w.Version, Digest: m.st.Tasks[w.Step.TaskID].Receipt.Result})
	}
	slices.SortFunc(sources, func(a, b source) int {
		if a.Ref < b.Ref {
			return -1
		}
		if a.Ref > b.Ref {
			return 1
		}
		return 0
	})
	b, err := engine.Canonical(sources)
	if err != nil {
		return "", err
	}
	return engine.Digest(b), nil
}

// outputDigest identifies what a reviewer judges: the report's bytes and the
// effects that the current tasks are known to have had. Where no tool writes,
// that is the report alone (R53; see docs/decisions).
func (o *objective) outputDigest(text string) (string, error) {
	var effects []string
	for _, w := range o.Works {
		for _, c := range w.Calls {
			if !c.Write || c.Outcome != engine.ToolOK {
				continue
			}
			if !c.Args.Loaded() {
				return "", fmt.Errorf("the arguments of a call of task %s are not loaded", w.Step.TaskID)
			}
			args, err := engine.CanonicalJSON([]byte(c.Args.S))
			if err != nil {
				args = []byte(c.Args.S)
			}
			effects = append(effects, engine.StableID("", c.Tool, string(args)))
		}
	}
	b, err := engine.Canonical(struct {
		Report  string   `json:"report"`
		Effects []string `json:"effects"`
	}{engine.Digest([]byte(text)), sorted(effects)})
	if err != nil {
		return "", err
	}
	return engine.Digest(b), nil
}

// authors are the agent identities behind the work under review: of every
// current task, retained ones and transitive dependencies included (R50).
func (o *objective) authors() []string {
	var out []string
	for _, w := range o.Works {
		out = append(out, w.Agent)
	}
	return sorted(out)
}
