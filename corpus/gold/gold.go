package gold

import (
	"fmt"

	"github.com/agentrooms/qualify/corpus"
)

// Schema of a gold file.
const Schema = "qualify/gold/v1"

// Gold is one parsed gold file. It is immutable after loading.
type Gold struct {
	Schema    string      `yaml:"schema"`
	Case      string      `yaml:"case"`
	NeedsPlan bool        `yaml:"needs_plan"` // true when the file does not say
	Criteria  []Criterion `yaml:"criteria"`
	Expected  []Expected  `yaml:"expected_effects"`
	Allowed   []Expected  `yaml:"allowed_effects"`
	Solution  []Step      `yaml:"solution"`

	src *corpus.Source
}

// Criterion is the check behind one criterion of the case.
type Criterion struct {
	ID       string `yaml:"id"`
	Required bool   `yaml:"required"`
	Check    Check  `yaml:"check"`
}

// Expected is an effect that must (or may) be confirmed Times times. Args is a
// subset of the effect's arguments.
type Expected struct {
	Tool  string       `yaml:"tool"`
	Args  corpus.Value `yaml:"args"`
	Times int          `yaml:"times"` // 1 when the file does not say
	// Free names arguments whose value nobody judges. It changes no figure:
	// the audit (corpus/lint) asks for a check on every other argument.
	Free []string `yaml:"free"`
}

// Step is one step of a right solution. It either calls a tool (Call, Args)
// or is a final word: Say, an Artifact, or both, which stand in the reply that
// ends the last turn of participant By. A single conversation walks the steps
// in order; After serves a plan.
//
// A step with Since is known only once the owner message of that id has been
// said; a step with Until is obsolete from that message on.
type Step struct {
	ID       string       `yaml:"step"`
	By       string       `yaml:"by"`
	Call     string       `yaml:"call"`
	Args     corpus.Value `yaml:"args"` // canonical JSON object; {} when the file gives none
	Say      string       `yaml:"say"`
	Artifact *Artifact    `yaml:"artifact"`
	After    []string     `yaml:"after"`
	Meets    []string     `yaml:"meets"`
	Report   bool         `yaml:"report"`
	Since    string       `yaml:"since"`
	Until    string       `yaml:"until"`
}

// Artifact is a document that the last turn of a step's participant delivers.
type Artifact struct {
	Name string `yaml:"name"`
	Text string `yaml:"text"`
}

// Final reports whether the step is a final word and not a call.
func (s Step) Final() bool { return s.Call == "" }

// File is the path of the gold file in its tree.
func (g *Gold) File() string { return g.src.File }

// Where is the file and line of a node of the gold file, for reports.
func (g *Gold) Where(path ...any) string {
	return fmt.Sprintf("%s:%d", g.src.File, g.src.Line(path...))
}

// InForce lists the steps that hold once the owner messages of the given ids
// have been said, in order.
func (g *Gold) InForce(said map[string]bool) []Step {
	var out []Step
	for _, s := range g.Solution {
		if (s.Since == "" || said[s.Since]) && (s.Until == "" || !said[s.Until]) {
			out = append(out, s)
		}
	}
	return out
}
