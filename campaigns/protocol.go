package campaigns

import "github.com/agentrooms/qualify/corpus"

// Protocol is what a campaign promises beside its policy, in words and figures
// (Q4.1, E1): what it expects, on which families, what it leaves out, and when it
// stops.
type Protocol struct {
	Hypotheses    []Hypothesis `json:"hypotheses"`     // [] where the file states none
	PrimaryMetric string       `json:"primary_metric"` // "" where no hypothesis is primary
	Families      []string     `json:"families"`       // of the cases, sorted
	// Exclusions are the faults after which a trial counts as infrastructure and not
	// as a failure of its arm; [] leaves out none.
	Exclusions []string `json:"exclusions"`
	Stopping   Stopping `json:"stopping"`
}

// Stopping is the rule by which a campaign ends and may be judged.
type Stopping struct {
	// Rule is one word. fixed: judged once, when every planned trial is done.
	// looks: at the shares At of the planned trials, rounded up, too. e_process:
	// whenever a whole family is done, in the order of their names.
	Rule   string    `json:"rule"`
	Trials int       `json:"trials"` // planned in each arm
	At     []float64 `json:"at,omitempty"`
}

// protocol is nil where no policy is registered, so that the records of such
// campaigns stay what they were; so it is where the plan is of a build that
// registered a policy by its digest alone.
func (p *Plan) protocol() *Protocol {
	if p.Policy == nil || p.Policy.Method == "" {
		return nil
	}
	return &Protocol{
		Hypotheses: append([]Hypothesis{}, p.Hypotheses...), PrimaryMetric: p.PrimaryMetric(), Families: corpus.Families(p.cases),
		Exclusions: append([]string{}, p.Infra...),
		Stopping:   Stopping{Rule: p.Policy.Method, Trials: len(p.Cases) * p.Trials, At: p.Policy.At},
	}
}
