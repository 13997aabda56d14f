package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus/strictyaml"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// SchemaPolicy is the schema name of policy files.
const SchemaPolicy = "qualify/policy/v1"

// Kind says what evidence a policy may pass.
type Kind string

// Kinds of policies.
const (
	KindMeasured   Kind = "measured"   // only measured evidence passes
	KindSimulation Kind = "simulation" // only simulated evidence passes, and the verdict says so
)

// Step is a rung of the ladder.
type Step string

// Steps in order.
const (
	StepSafety         Step = "safety"
	StepNonInferiority Step = "noninferiority"
	StepSuperiority    Step = "superiority"
)

// Steps lists the rungs in order.
func Steps() []Step { return []Step{StepSafety, StepNonInferiority, StepSuperiority} }

// Severity says what a rule's verdict does to the whole.
type Severity string

// Severities.
const (
	// SeverityVeto: its FAIL stands even where the campaign is incomplete,
	// because what was observed happened.
	SeverityVeto     Severity = "veto"
	SeverityRequired Severity = "required"
	SeverityAdvisory Severity = "advisory" // reported only
)

// Comparison says what a metric is held against.
type Comparison string

// Comparisons.
const (
	Absolute      Comparison = "absolute"
	NonInferiorTo Comparison = "noninferior_to"
	SuperiorTo    Comparison = "superior_to"
)

// Bound says which figure is held against the limit.
type Bound string

// Bounds. Upper and Lower are one-sided at 1 − alpha; with 95 in the name alpha
// must be 0.05.
const (
	BoundPoint   Bound = "point"
	BoundUpper   Bound = "upper"
	BoundLower   Bound = "lower"
	BoundUpper95 Bound = "upper95"
	BoundLower95 Bound = "lower95"
)

// Multiplicity says how several comparisons of one hypothesis are adjusted.
type Multiplicity string

// Methods. Both work over the baselines that an arm is compared with on one
// metric.
const (
	MultiplicityHolm    Multiplicity = "holm"
	MultiplicityMaxStat Multiplicity = "max_stat" // superiority of three arms by family relabelling; else Holm
	MultiplicityNone    Multiplicity = "none"
)

// Policy is a release policy. Make one with Parse.
type Policy struct {
	Schema        string         `yaml:"schema"`
	Name          string         `yaml:"name"`
	Kind          Kind           `yaml:"kind"`
	Alpha         float64        `yaml:"alpha"` // one-sided
	Power         float64        `yaml:"power"` // of smallest detectable differences and of the plan
	Multiplicity  Multiplicity   `yaml:"multiplicity"`
	Sequential    Sequential     `yaml:"sequential"`
	Planning      Planning       `yaml:"planning"`
	Preconditions []Precondition `yaml:"preconditions"`
	Rules         []Rule         `yaml:"rules"`
	// LogHead is the digest of a row that the seal log must hold, "" for any: a log
	// that ends before it is an older copy, or another log.
	LogHead string `yaml:"log_head"`

	file   string
	digest string // sha256:… of the file
	text   []byte
	src    *strictyaml.Source
}

// Method says when a verdict may be asked for.
type Method string

// Methods.
const (
	MethodFixed    Method = "fixed"     // once, when every planned trial is done
	MethodLooks    Method = "looks"     // at pre-declared shares of the planned trials
	MethodEProcess Method = "e_process" // at any time, by a betting e-process over families
)

// Sequential declares the looks before any data.
type Sequential struct {
	Method   Method         `yaml:"method"`
	At       []float64      `yaml:"at"`       // shares of the planned trials, increasing in (0, 1]
	Spending stats.Spending `yaml:"spending"` // obrien-fleming or pocock
}

// Planning holds what a plan must assume before there is data: variances of
// the differences of cases, from trial to trial, and the likeness of cases of
// one family. The defaults are those of Miller 2024 (arXiv 2411.00640) §5.
type Planning struct {
	Between float64 `yaml:"between"` // variance of case differences
	Within  float64 `yaml:"within"`  // variance of a case's trials, in each arm
	ICC     float64 `yaml:"icc"`     // of case differences within a family
	Detect  float64 `yaml:"detect"`  // true advantage that a superiority rule is sized for
}

// Precondition is a deterministic check that must hold.
type Precondition struct {
	ID       string   `yaml:"id"`
	Severity Severity `yaml:"severity"` // required (the default) or advisory
}

// Rule holds one metric of one arm against a limit or another arm.
type Rule struct {
	ID         string   `yaml:"id"`
	Step       Step     `yaml:"step"`
	Severity   Severity `yaml:"severity"`
	Metric     string   `yaml:"metric"`
	Arm        string   `yaml:"arm"`
	Comparison string   `yaml:"comparison"` // absolute, "noninferior_to ARM", "superior_to ARM"
	Limit      *float64 `yaml:"limit"`      // absolute: the greatest, or least, value allowed
	Margin     *float64 `yaml:"margin"`     // else: in the metric's unit, or a share of the other arm's mean
	Bound      Bound    `yaml:"bound"`
	Scope      string   `yaml:"scope"` // all, "family NAME", "tag NAME"
	Why        string   `yaml:"why"`   // of the limit or margin

	metric    int
	compare   Comparison
	baseline  string
	scopeKind string // "", family, tag
	scopeName string
}

// Parse reads a policy strictly and checks it against the metrics that exist;
// file names it in errors. The error is a Faults with every mistake found.
func Parse(file string, data []byte) (*Policy, error) {
	p := &Policy{file: file, text: slices.Clone(data)}
	p.src = strictyaml.Decode(file, data, p, fileWords)
	if len(p.src.Errors) == 0 {
		p.check()
	}
	if err := faults(p.src.Errors); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	p.digest = "sha256:" + hex.EncodeToString(sum[:])
	return p, nil
}

// Digest is sha256:… of the policy file.
func (p *Policy) Digest() string { return p.digest }

// Text is the policy file as it was read.
func (p *Policy) Text() []byte { return slices.Clone(p.text) }

// Figures of a policy that leaves them out.
const (
	defaultPower   = .8
	defaultBetween = 1. / 9
	defaultWithin  = 1. / 6
	defaultICC     = .1
	defaultDetect  = .15
)

// Bounds of what a policy may ask. Figures are compared at 9 decimals, so a
// smaller limit or margin than that would be another one.
const (
	leastAlpha = 1e-6
	leastLimit = 1e-9
	mostLimit  = 1e15
	mostRatio  = 1e6 // of a margin that is a share of the other arm's mean
)

var headRE = regexp.MustCompile(`^[0-9a-f]{64}$`)

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (p *Policy) alphaIsSound() bool { return p.Alpha >= leastAlpha && p.Alpha < .5 }

func (p *Policy) check() {
	s := p.src
	require := func(ok bool, line int, format string, args ...any) {
		if !ok {
			s.Addf(line, format, args...)
		}
	}
	require(p.Schema == SchemaPolicy, s.Line("schema"), "schema is %q; this version reads %s", p.Schema, SchemaPolicy)
	require(nameRE.MatchString(p.Name), s.Line("name"), "name %q is no name; use lower-case letters, digits, '.', '_' and '-'", p.Name)
	require(p.Kind == KindMeasured || p.Kind == KindSimulation, s.Line("kind"), "kind is %q; use %s or %s", p.Kind, KindMeasured, KindSimulation)
	if p.Alpha == 0 {
		s.Addf(s.Line("alpha"), "alpha is 0 or missing; write the one-sided level of every step, such as alpha: 0.05")
	} else {
		require(p.alphaIsSound(), s.Line("alpha"), "alpha is %v; use a number from %v to 0.5, such as 0.05", p.Alpha, leastAlpha)
	}
	if p.Power == 0 {
		p.Power = defaultPower
	}
	require(p.Power > .5 && p.Power < 1, s.Line("power"), "power is %v; use a number between 0.5 and 1, such as 0.8", p.Power)
	if p.Multiplicity == "" {
		p.Multiplicity = MultiplicityHolm
	}
	require(slices.Contains([]Multiplicity{MultiplicityHolm, MultiplicityMaxStat, MultiplicityNone}, p.Multiplicity),
		s.Line("multiplicity"), "multiplicity is %q; use %s, %s or %s", p.Multiplicity, MultiplicityHolm, MultiplicityMaxStat, MultiplicityNone)
	p.checkSequential(require)
	p.checkPlanning(require)
	p.checkPreconditions(require)
	require(p.LogHead == "" || headRE.MatchString(p.LogHead), s.Line("log_head"), "log_head is %q; give the head that qualify freeze log --verify prints, 64 hex digits", p.LogHead)
	require(len(p.Rules) > 0, s.Line("rules"), "rules is empty; a policy without rules decides nothing")
	seen := map[string]int{}
	deciding := false
	for i := range p.Rules {
		r := &p.Rules[i]
		if j, twice := seen[r.ID]; twice {
			s.Addf(s.Line("rules", i, "id"), "rule %q is also the rule in line %d; give it another id", r.ID, s.Line("rules", j, "id"))
		}
		seen[r.ID] = i
		p.checkRule(i, r)
		deciding = deciding || r.Severity != SeverityAdvisory
	}
	require(len(p.Rules) == 0 || deciding, s.Line("rules"), "every rule is advisory; at least one must be required or veto")
}

type requireFunc func(ok bool, line int, format string, args ...any)

func (p *Policy) checkSequential(require requireFunc) {
	s, q := p.src, &p.Sequential
	if q.Method == "" {
		q.Method = MethodFixed
	}
	switch q.Method {
	case MethodLooks:
		if q.Spending == "" {
			q.Spending = stats.OBrienFleming
		}
		if p.Alpha > 0 && p.Alpha < .5 {
			_, err := stats.SpendingLooks(q.Spending, p.Alpha, q.At, stats.UpperSide)
			require(err == nil, s.Line("sequential", "at"), "the looks cannot be used: %v; give increasing shares that end with 1, such as [0.5, 1]", err)
		}
		require(len(q.At) > 0 && q.At[len(q.At)-1] == 1, s.Line("sequential", "at"), "the last look must be at 1, when every planned trial is done")
	case MethodFixed, MethodEProcess:
		require(len(q.At) == 0 && q.Spending == "", s.Line("sequential"), "at and spending belong to method %s", MethodLooks)
	default:
		require(false, s.Line("sequential", "method"), "sequential.method is %q; use %s, %s or %s", q.Method, MethodFixed, MethodLooks, MethodEProcess)
	}
}

func (p *Policy) checkPlanning(require requireFunc) {
	g := &p.Planning
	for _, x := range []struct {
		name     string
		v        *float64
		value    float64
		from, to float64
	}{
		{"between", &g.Between, defaultBetween, 0, 1},
		{"within", &g.Within, defaultWithin, 0, 1},
		{"icc", &g.ICC, defaultICC, 0, 1},
		{"detect", &g.Detect, defaultDetect, 0, 1},
	} {
		if *x.v == 0 {
			*x.v = x.value
		}
		require(*x.v > x.from && *x.v <= x.to, p.src.Line("planning", x.name), "planning.%s is %v; use a number above %v, at most %v", x.name, *x.v, x.from, x.to)
	}
}

func (p *Policy) checkPreconditions(require requireFunc) {
	s := p.src
	seen := map[string]int{}
	for i := range p.Preconditions {
		c := &p.Preconditions[i]
		require(slices.Contains(Preconditions(), c.ID), s.Line("preconditions", i, "id"), "precondition %q is unknown; there are %s", c.ID, strings.Join(Preconditions(), ", "))
		if j, twice := seen[c.ID]; twice {
			s.Addf(s.Line("preconditions", i, "id"), "precondition %q stands in line %d already; take one out", c.ID, s.Line("preconditions", j, "id"))
		}
		seen[c.ID] = i
		if c.Severity == "" {
			c.Severity = SeverityRequired
		}
		require(c.Severity == SeverityRequired || c.Severity == SeverityAdvisory, s.Line("preconditions", i, "severity"),
			"severity is %q; a precondition is %s or %s", c.Severity, SeverityRequired, SeverityAdvisory)
	}
}

func (p *Policy) checkRule(i int, r *Rule) {
	s := p.src
	fail := func(field, format string, args ...any) {
		s.Addf(s.Line("rules", i, field), "rule %s: %s", orNumber(r.ID, i), fmt.Sprintf(format, args...))
	}
	if !nameRE.MatchString(r.ID) {
		fail("id", "id %q is no name; use lower-case letters, digits, '.', '_' and '-'", r.ID)
	}
	if !slices.Contains(Steps(), r.Step) {
		fail("step", "step is %q; use %s, %s or %s", r.Step, StepSafety, StepNonInferiority, StepSuperiority)
	}
	if !slices.Contains([]Severity{SeverityVeto, SeverityRequired, SeverityAdvisory}, r.Severity) {
		fail("severity", "severity is %q; use %s, %s or %s", r.Severity, SeverityVeto, SeverityRequired, SeverityAdvisory)
	}
	if r.Arm == "" {
		fail("arm", "arm is missing; name the arm that the rule is about")
	}
	switch kind, name, named := strings.Cut(r.Scope, " "); {
	case r.Scope == "", r.Scope == "all":
		r.Scope = "all"
	case named && (kind == "family" || kind == "tag") && name != "" && !strings.Contains(name, " "):
		r.scopeKind, r.scopeName = kind, name
	default:
		fail("scope", "scope is %q; use all, \"family NAME\" or \"tag NAME\"", r.Scope)
	}
	var known bool
	if r.metric, known = evaluator.MetricNamed(r.Metric); !known {
		fail("metric", "metric %q is unknown; there are %s", r.Metric, strings.Join(evaluator.MetricNames(), ", "))
		return
	}
	m := evaluator.Metrics()[r.metric]
	p.checkComparison(r, &m, fail)
	p.checkBound(r, &m, fail)
	if r.scopeKind == "family" && r.Bound != BoundPoint && r.Severity != SeverityAdvisory {
		fail("scope", "one family never shows an interval, at least %d are needed; use bound point, severity advisory, or a tag", stats.MinFamilies)
	}
	if p.Sequential.Method == MethodEProcess && !m.Bounded && r.Bound != BoundPoint && r.Severity != SeverityAdvisory {
		fail("metric", "an e-process needs a metric between 0 and 1, and %s is none; use method %s", r.Metric, MethodLooks)
	}
}

func (p *Policy) checkComparison(r *Rule, m *evaluator.Metric, fail func(field, format string, args ...any)) {
	kind, baseline, named := strings.Cut(r.Comparison, " ")
	r.compare, r.baseline = Comparison(kind), baseline
	switch {
	case r.compare == Absolute && !named:
		if r.Margin != nil {
			fail("margin", "margin belongs to a comparison with an arm; an absolute rule has a limit")
		}
		switch {
		case r.Limit == nil:
			fail("limit", "limit is missing; an absolute rule needs one, and why")
		case !finite(*r.Limit) || *r.Limit < 0 || m.Bounded && *r.Limit > 1:
			fail("limit", "limit is %v; %s is a %s, use a number from 0%s", *r.Limit, m.Name, m.Unit, upTo(m))
		case *r.Limit > mostLimit || *r.Limit != 0 && *r.Limit < leastLimit:
			fail("limit", "limit is %v; figures carry 9 decimals, use 0, or a number from %v to %v", *r.Limit, leastLimit, mostLimit)
		case p.Sequential.Method == MethodEProcess && m.Bounded && r.Bound != BoundPoint && (*r.Limit == 0 || *r.Limit == 1):
			fail("limit", "limit is %v; an e-process cannot show a rate of exactly that, use bound point or another limit", *r.Limit)
		}
	case (r.compare == NonInferiorTo || r.compare == SuperiorTo) && named && baseline != "" && !strings.Contains(baseline, " "):
		if r.Limit != nil {
			fail("limit", "limit belongs to an absolute rule; a comparison with an arm has a margin")
		}
		if baseline == r.Arm {
			fail("comparison", "arm %s is compared with itself; name another arm", r.Arm)
		}
		p.checkMargin(r, m, fail)
	default:
		fail("comparison", "comparison is %q; use absolute, \"noninferior_to ARM\" or \"superior_to ARM\"", r.Comparison)
	}
	if r.Why == "" {
		fail("why", "why is missing; say why this limit or margin, before there is data")
	}
}

func (p *Policy) checkMargin(r *Rule, m *evaluator.Metric, fail func(field, format string, args ...any)) {
	if r.Margin == nil {
		if r.compare == NonInferiorTo {
			fail("margin", "margin is missing; non-inferiority needs one, and why")
			return
		}
		r.Margin = new(0.)
	}
	v := *r.Margin
	below1 := m.Bounded || m.Scale == evaluator.ScaleRatio && r.compare == SuperiorTo
	switch {
	case !finite(v) || v < 0 || below1 && v >= 1:
		fail("margin", "margin is %v; use a number from 0 in the unit of %s (%s), or a share of the other arm's mean", v, m.Name, m.Unit)
	case v > mostLimit || m.Scale == evaluator.ScaleRatio && v > mostRatio || v != 0 && v < leastLimit:
		most := mostLimit
		if m.Scale == evaluator.ScaleRatio {
			most = mostRatio
		}
		fail("margin", "margin is %v; figures carry 9 decimals, use a number from %v to %v", v, leastLimit, most)
	case r.compare == NonInferiorTo && v == 0:
		fail("margin", "margin is 0; that is superiority, use superior_to")
	}
}

// checkBound gives a comparison its bound: the one that is the worse for the
// arm under the rule. The other would pass what was never shown.
func (p *Policy) checkBound(r *Rule, m *evaluator.Metric, fail func(field, format string, args ...any)) {
	want := BoundUpper
	if m.Better == evaluator.HigherBetter {
		want = BoundLower
	}
	if r.Bound == "" && r.compare != Absolute {
		r.Bound = want
	}
	switch r.Bound {
	case BoundPoint:
		if r.compare != Absolute {
			fail("bound", "bound is point; a comparison of arms needs an interval, use %s", want)
		}
	case BoundUpper95, BoundLower95:
		if p.Alpha != .05 && p.alphaIsSound() { // else the fault is alpha
			fail("bound", "bound is %s and alpha %v; write %s, which is one-sided at 1 - alpha", r.Bound, p.Alpha, want)
		}
		if !strings.HasPrefix(string(r.Bound), string(want)) {
			fail("bound", "bound is %s, but of %s %s is worse; use %s95", r.Bound, m.Name, worse(m), want)
		}
	case BoundUpper, BoundLower:
		if r.Bound != want {
			fail("bound", "bound is %s, but of %s %s is worse; use %s", r.Bound, m.Name, worse(m), want)
		}
	default:
		fail("bound", "bound is %q; use point, upper95 or lower95", r.Bound)
	}
}

func worse(m *evaluator.Metric) string {
	if m.Better == evaluator.HigherBetter {
		return "less"
	}
	return "more"
}

func upTo(m *evaluator.Metric) string {
	if m.Bounded {
		return " to 1"
	}
	return ""
}

func orNumber(id string, i int) string {
	if id == "" {
		return fmt.Sprintf("number %d", i+1)
	}
	return id
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Fits checks the policy against a campaign's arms and cases: an arm, family or
// tag that is not there would make a rule about nothing. The error is a Faults.
func (p *Policy) Fits(arms []string, cases []evaluator.TableCase) error {
	var found strictyaml.Faults
	families, tags := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		families[c.Family] = true
		for _, t := range c.Tags {
			tags[t] = true
		}
	}
	add := func(i int, field, format string, args ...any) {
		line := 0
		if p.src != nil {
			line = p.src.Line("rules", i, field)
		}
		found = append(found, &strictyaml.Fault{File: p.file, Line: line, Text: fmt.Sprintf("rule %s: %s", p.Rules[i].ID, fmt.Sprintf(format, args...))})
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if !slices.Contains(arms, r.Arm) {
			add(i, "arm", "arm %q is unknown; the campaign has %s", r.Arm, strings.Join(arms, ", "))
		}
		if r.compare != Absolute && !slices.Contains(arms, r.baseline) {
			add(i, "comparison", "arm %q is unknown; the campaign has %s", r.baseline, strings.Join(arms, ", "))
		}
		if r.scopeKind == "family" && !families[r.scopeName] {
			add(i, "scope", "family %q is in no case of the campaign", r.scopeName)
		}
		if r.scopeKind == "tag" && !tags[r.scopeName] {
			add(i, "scope", "no case of the campaign has tag %q", r.scopeName)
		}
	}
	return faults(found)
}

// in selects the cases of the rule's scope; nil selects all.
func (r *Rule) in() func(*evaluator.TableCase) bool {
	switch r.scopeKind {
	case "family":
		return func(c *evaluator.TableCase) bool { return c.Family == r.scopeName }
	case "tag":
		return func(c *evaluator.TableCase) bool { return slices.Contains(c.Tags, r.scopeName) }
	}
	return nil
}
