package evaluator

// Document is the name and version of a JSON document.
type Document struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// ScoreDocument is what `qualify score --json` prints. Keys are stable.
type ScoreDocument struct {
	Schema   Document    `json:"schema"`
	Tool     string      `json:"tool"`
	Files    []ScoreFile `json:"files"`
	Arms     []ScoreArm  `json:"arms"`
	Warnings []string    `json:"warnings"`
}

// ScoreFile is one file that was scored.
type ScoreFile struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Format  string `json:"format"`
	Arm     string `json:"arm"`
	Effects string `json:"effects"` // profile name, "none" without one
}

// ScoreArm sums up the recorded traces of one arm. A nil field is not
// evaluable and is listed, with its reason, in NotEvaluable.
type ScoreArm struct {
	Name       string         `json:"name"`
	Evidence   string         `json:"evidence"`
	Traces     int            `json:"traces"`
	Cases      int            `json:"cases"`
	Trials     int            `json:"trials"` // per case; the minimum when unequal
	Completion Completion     `json:"completion"`
	PassHat    map[string]Num `json:"pass_hat"`
	PassAt     map[string]Num `json:"pass_at"`
	PassRule   string         `json:"pass_rule"`
	// PassHatPublished is pass^k by the publisher's rule, n = distinct trials,
	// where that gives another figure.
	PassHatPublished map[string]Num `json:"pass_hat_published,omitempty"`
	ToolCalls        int            `json:"tool_calls"`
	ToolErrors       *int           `json:"tool_errors,omitempty"`
	Writes           *Writes        `json:"writes,omitempty"`
	RepeatedCalls    CountIn        `json:"repeated_calls"`
	RepeatedWork     *CountIn       `json:"repeated_work,omitempty"`
	DuplicateEffects *CountIn       `json:"duplicate_effects,omitempty"`
	Collateral       *CountIn       `json:"collateral_effects,omitempty"`
	ReusedCallIDs    TracesWith     `json:"reused_call_ids"`
	Unfinished       *int           `json:"unfinished,omitempty"`
	// Exceptions counts traces whose record carries an exception. They count
	// as unmet: the file cannot show that they failed before dispatch (Q2).
	Exceptions   int            `json:"exceptions"`
	UserCost     *UserCost      `json:"user_cost,omitempty"`
	Denominators Recorded       `json:"denominators"`
	NotEvaluable []NotEvaluable `json:"not_evaluable"`
}

// Completion is a completion rate with its clustered error. SE is nil when it
// is undefined.
type Completion struct {
	Rate     *Num   `json:"rate"`
	SE       *Num   `json:"se"`
	SEMethod string `json:"se_method"`
	Cluster  string `json:"cluster"`
	N        int    `json:"n"`
	Clusters int    `json:"clusters"`
	Met      int    `json:"met"`
}

// Writes counts calls of write tools.
type Writes struct {
	Attempted int `json:"attempted"`
	Confirmed int `json:"confirmed"`
}

// CountIn is a count and the number of traces that have any.
type CountIn struct {
	Count  int `json:"count"`
	Traces int `json:"traces"`
}

func (c *CountIn) add(n int) {
	c.Count += n
	if n > 0 {
		c.Traces++
	}
}

// TracesWith counts traces that show something.
type TracesWith struct {
	Traces int `json:"traces"`
}

// UserCost is what the simulated user cost, where the profile declares the
// unit of the field.
type UserCost struct {
	Unit    string `json:"unit"`
	Sum     Num    `json:"sum"`
	N       int    `json:"n"`
	Missing int    `json:"missing"`
}

// Recorded are the denominators of a format without claims (Q2).
type Recorded struct {
	Planned        int `json:"planned"`
	Met            int `json:"met"`
	Unmet          int `json:"unmet"`
	Infrastructure int `json:"infrastructure"`
	GraderError    int `json:"grader_error"`
	NotRun         int `json:"not_run"`
}

// NotEvaluable names a metric and the missing input. Count is the number of
// trials concerned where that is not all of them.
type NotEvaluable struct {
	Metric string `json:"metric"`
	Reason string `json:"reason"`
	Count  int    `json:"count,omitempty"`
}
