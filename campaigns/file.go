package campaigns

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/simulated"
)

// SchemaCampaign is the schema name of campaign files.
const SchemaCampaign = "qualify/campaign/v1"

// File is a campaign file as written (shapes.md). Money is in decimal strings.
type File struct {
	Schema    string                     `yaml:"schema"`
	Name      string                     `yaml:"name"`
	Seed      uint64                     `yaml:"seed"`
	Corpus    string                     `yaml:"corpus"` // builtin, or a folder or sealed file relative to the file
	Cases     CaseFilter                 `yaml:"cases"`
	Trials    int                        `yaml:"trials"`
	Order     string                     `yaml:"order"` // rounds (or "") or families
	Arms      []ArmFile                  `yaml:"arms"`
	UnderTest []string                   `yaml:"under_test"`
	Model     ModelFile                  `yaml:"model"`
	Prices    map[string]model.PriceText `yaml:"prices"`
	Clock     string                     `yaml:"clock"` // virtual or wall
	// Ceiling names a simulated ceiling that campaigns share; "" gives the
	// campaign one of its own, which follows CeilUSD. The first campaign that
	// names it sets its limit, with its CeilUSD. Each later one is capped by its
	// own CeilUSD inside that limit and does not move it: only `budget grant
	// TOTAL --ceiling NAME` does. Real funds know one ceiling, the owner's.
	Ceiling string `yaml:"ceiling"`
	// CeilUSD is the most that the campaign may spend, in any case.
	CeilUSD  string   `yaml:"ceiling_usd"`
	Parallel int      `yaml:"parallel"`
	Infra    []string `yaml:"infrastructure_faults"`
	Controls *bool    `yaml:"controls"`
	// Policy is the release policy that the campaign is to be judged by: builtin:NAME,
	// or a file relative to this one. It is registered with what each of its rules
	// needs before the first trial (Q5), and is part of the campaign's identity. ""
	// registers none.
	Policy string `yaml:"policy"`
	// Hypotheses are what the campaign expects to find, each decided by rules of
	// Policy. They are registered, and part of the campaign's identity.
	Hypotheses []Hypothesis `yaml:"hypotheses"`
	// Freeze says what `freeze create` covers beside what the campaign names
	// already; it is not part of the campaign's identity.
	Freeze FreezeFile `yaml:"freeze"`

	src *corpus.Source // nil in a file that was not parsed
}

// FreezeFile names the files of a freeze (Q4.2). Paths have slashes.
type FreezeFile struct {
	Root     string   `yaml:"root"`     // folder of the other paths, relative to the campaign file; "" is its folder
	Include  []string `yaml:"include"`  // files and folders to freeze
	Exclude  []string `yaml:"exclude"`  // patterns that leave files and folders out
	Binaries []string `yaml:"binaries"` // binaries that may run beside the one that makes the freeze
}

// CaseFilter selects cases of one split; include and exclude are globs over
// case ids.
type CaseFilter struct {
	Split   string   `yaml:"split" json:"split"`
	Include []string `yaml:"include" json:"include"`
	Exclude []string `yaml:"exclude" json:"exclude"`
}

// ArmFile is one arm as written.
type ArmFile struct {
	Name        string            `yaml:"name"`
	Mode        string            `yaml:"mode"`
	Idempotency string            `yaml:"idempotency"`
	Options     map[string]string `yaml:"options"`
	Role        string            `yaml:"role"`
}

// ModelFile names the provider and its parameters.
type ModelFile struct {
	Provider  string            `yaml:"provider"`
	Name      string            `yaml:"name"`
	Params    map[string]string `yaml:"params"`
	Simulated *SimulatedFile    `yaml:"simulated"`
}

// SimulatedFile holds the rates of the simulated model, decimal strings in
// [0, 1] with at most six places; one set for every arm and role.
type SimulatedFile struct {
	SkipStep          string      `yaml:"skip_step" json:"skip_step"`
	WrongArgument     string      `yaml:"wrong_argument" json:"wrong_argument"`
	EarlyClaim        string      `yaml:"early_claim" json:"early_claim"`
	MalformedJSON     string      `yaml:"malformed_json" json:"malformed_json"`
	MissingUsage      string      `yaml:"missing_usage" json:"missing_usage"`
	LostReply         string      `yaml:"lost_reply" json:"lost_reply"`
	RetryAfterUnknown string      `yaml:"retry_after_unknown" json:"retry_after_unknown"`
	PlanFault         string      `yaml:"plan_fault" json:"plan_fault"`
	Review            ReviewRates `yaml:"review" json:"review"`
	LatencyMS         LatencyMS   `yaml:"latency_ms" json:"latency_ms"`
}

// ReviewRates of the simulated reviewer.
type ReviewRates struct {
	PassesBad string `yaml:"passes_bad" json:"passes_bad"`
	FailsGood string `yaml:"fails_good" json:"fails_good"`
}

// LatencyMS of a simulated call, milliseconds of virtual time.
type LatencyMS struct {
	Median int64 `yaml:"median" json:"median"`
	P95    int64 `yaml:"p95" json:"p95"`
}

// Roles of an arm.
const (
	RoleArm      = ""
	RoleAblation = "ablation" // shown apart: outside triple, verdict and the others' budget
)

// ErrUnpriced refuses a campaign whose model has no price: its calls could not
// be charged.
var ErrUnpriced = errors.New("model without a price")

// unpriced are the faults of a file that has no other but the missing price.
type unpriced struct{ corpus.Errors }

// Is implements errors.Is for ErrUnpriced.
func (unpriced) Is(target error) bool { return target == ErrUnpriced }

// ParseFile reads and checks a campaign file; path is used in errors only. The
// error is a corpus.Errors with every fault found and its place; it is also
// ErrUnpriced when the only fault is that the model has no price.
func ParseFile(path string, data []byte) (*File, error) {
	var f File
	src := corpus.DecodeYAML(path, data, &f)
	c := &fileChecker{src: src}
	if len(src.Errors) == 0 {
		f.check(c)
	}
	if c.unpriced && len(src.Errors) == 1 {
		return nil, unpriced{src.Errors}
	}
	if err := src.Errors.Err(); err != nil {
		return nil, err
	}
	f.src = src
	return &f, nil
}

// line is where a dotted path stands in the file, 0 where that is not known.
func (f *File) line(where string) int {
	if f.src == nil {
		return 0
	}
	return lineIn(f.src, where)
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// fileChecker gathers the faults of a file with their lines. Places are
// written as dotted paths: "arms.1.mode".
type fileChecker struct {
	src      *corpus.Source
	unpriced bool // the model has no price
}

func (c *fileChecker) fail(where, format string, args ...any) {
	c.src.Addf(c.line(where), "%s: %s", where, fmt.Sprintf(format, args...))
}

func (c *fileChecker) line(where string) int { return lineIn(c.src, where) }

// lineIn is the line of a dotted path.
func lineIn(src *corpus.Source, where string) int {
	parts := strings.Split(where, ".")
	path := make([]any, len(parts))
	for i, p := range parts {
		path[i] = p
		if n, err := strconv.Atoi(p); err == nil {
			path[i] = n
		}
	}
	return src.Line(path...)
}

func (c *fileChecker) require(ok bool, where, format string, args ...any) {
	if !ok {
		c.fail(where, format, args...)
	}
}

func (f *File) check(c *fileChecker) {
	c.require(f.Schema == SchemaCampaign, "schema", "is %q; this version reads %s", f.Schema, SchemaCampaign)
	c.require(nameRE.MatchString(f.Name), "name", "%q is no name; use lower-case letters, digits, '.', '_' and '-', at most 64", f.Name)
	c.require(f.Seed <= MaxSeed, "seed", "is %d; use 0 to %d", f.Seed, int64(MaxSeed))
	c.require(f.Trials >= 1, "trials", "is %d; a campaign needs at least 1 trial per case and arm", f.Trials)
	c.require(f.Trials <= MaxTrials, "trials", "is %d; at most %d", f.Trials, MaxTrials)
	c.require(f.Parallel >= 0 && f.Parallel <= MaxParallel, "parallel", "is %d; use 1 to %d", f.Parallel, MaxParallel)
	c.require(f.Clock == "" || f.Clock == ClockVirtual || f.Clock == ClockWall, "clock", "is %q; use virtual or wall", f.Clock)
	c.require(f.Order == "" || f.Order == OrderRounds || f.Order == OrderFamilies, "order", "is %q; use rounds or families", f.Order)
	c.require(f.Corpus != "", "corpus", "is missing; use builtin, or a folder relative to this file")
	if f.Ceiling != "" {
		c.require(nameRE.MatchString(f.Ceiling), "ceiling", "%q is no name", f.Ceiling)
	}
	if f.CeilUSD == "" {
		c.fail("ceiling_usd", "is missing; name the most this campaign may spend, e.g. \"1.00\"")
	} else if v, err := budget.ParseUSD(f.CeilUSD); err != nil {
		c.fail("ceiling_usd", "%v", err)
	} else if v == 0 {
		c.fail("ceiling_usd", "is 0; a campaign that may spend nothing runs nothing")
	}
	for i, k := range f.Infra {
		c.fail("infrastructure_faults."+strconv.Itoa(i), "%q is unknown; this version retries none, leave the list empty", k)
	}
	f.checkArms(c)
	f.checkModel(c)
	f.checkHypotheses(c)
	f.checkFreeze(c)
}

// Bounds of a campaign, in its file and on the command line.
const (
	MaxTrials   = 10000 // per case and arm
	MaxParallel = 1024  // trials at once

	// MaxSeed is the largest seed that canonical JSON keeps to the last digit, so
	// that two seeds never make one campaign.
	MaxSeed = math.MaxInt64
)

// Orders of a schedule.
const (
	// OrderRounds has trials outermost: what a ceiling cuts is the last trials of
	// every case. It is the default.
	OrderRounds = "rounds"
	// OrderFamilies ends one family, in the order of their names, before the next
	// begins: what a ceiling cuts is whole families. A verdict by e-process needs
	// it to conclude before the end, since it counts whole families only.
	OrderFamilies = "families"
)

// Clocks a campaign may run on.
const (
	ClockVirtual = "virtual"
	ClockWall    = "wall"
)

func (f *File) checkArms(c *fileChecker) {
	c.require(len(f.Arms) > 0, "arms", "is empty; name at least one arm")
	seen := map[string]int{}
	matched := 0
	for i, a := range f.Arms {
		where := "arms." + strconv.Itoa(i)
		c.require(nameRE.MatchString(a.Name), where+".name", "%q is no name; use lower-case letters, digits, '.', '_' and '-'", a.Name)
		if j, dup := seen[a.Name]; dup {
			c.fail(where+".name", "%q is also the name of arm %d (line %d)", a.Name, j, c.line("arms."+strconv.Itoa(j)+".name"))
		}
		seen[a.Name] = i
		c.require(!strings.HasPrefix(a.Name, controlPrefix), where+".name", "%q: the prefix %q is reserved", a.Name, controlPrefix)
		c.require(slices.Contains([]string{"", "on", "off"}, a.Idempotency), where+".idempotency", "is %q; use on or off", a.Idempotency)
		c.require(a.Role == RoleArm || a.Role == RoleAblation, where+".role", "is %q; leave it out, or use %s", a.Role, RoleAblation)
		c.require(a.Mode != "", where+".mode", "is missing")
		if a.Role == RoleArm {
			matched++
		}
	}
	c.require(matched > 0, "arms", "has ablations only; at least one arm must take part in the comparison")
	for i, u := range f.UnderTest {
		c.require(slices.Contains([]string{"mode", "idempotency", "options"}, u), "under_test."+strconv.Itoa(i), "%q is nothing that arms can differ in; use mode, idempotency, options", u)
	}
}

// checkFreeze refuses what no freeze can cover, by the rules of package freeze:
// so it is found before the campaign is run, and not only by `freeze create`.
func (f *File) checkFreeze(c *fileChecker) {
	for i, p := range f.Freeze.Include {
		c.require(p != "" && fs.ValidPath(path.Clean(p)), "freeze.include."+strconv.Itoa(i), "%q is no path inside the root; write it relative to the root, with slashes", p)
	}
	for i, p := range f.Freeze.Exclude {
		_, err := path.Match(p, "")
		c.require(p != "" && err == nil, "freeze.exclude."+strconv.Itoa(i), "%q is no pattern of file names; a '[' begins a class such as [a-z], and '\\' takes the next character as it is", p)
	}
}

func (f *File) checkModel(c *fileChecker) {
	c.require(f.Model.Provider != "", "model.provider", "is missing")
	c.require(f.Model.Name != "", "model.name", "is missing")
	if n, ok := f.Model.Params["max_output_tokens"]; !ok {
		c.fail("model.params", "max_output_tokens is missing; without it a call has no bound on its cost")
	} else if v, err := strconv.Atoi(n); err != nil || v < 1 || v > 1_000_000 {
		c.fail("model.params.max_output_tokens", "is %q; use a whole number from 1 to 1000000", n)
	}
	if _, ok := f.Prices[f.Model.Name]; !ok {
		c.unpriced = true
		c.fail("prices", "has no entry for model %q; a call without price is refused", f.Model.Name)
	}
	if _, err := model.ParsePrices(f.Prices); err != nil {
		c.fail("prices", "%v", err)
	}
	if f.Model.Provider != "simulated" {
		c.require(f.Model.Simulated == nil, "model.simulated", "belongs to provider simulated, this is %q", f.Model.Provider)
		return
	}
	if f.Model.Simulated == nil {
		c.fail("model", "simulated is missing: give the rates of the simulated model")
		return
	}
	s := f.Model.Simulated
	for _, r := range []struct{ name, val string }{
		{"skip_step", s.SkipStep},
		{"wrong_argument", s.WrongArgument},
		{"early_claim", s.EarlyClaim},
		{"malformed_json", s.MalformedJSON},
		{"missing_usage", s.MissingUsage},
		{"lost_reply", s.LostReply},
		{"retry_after_unknown", s.RetryAfterUnknown},
		{"plan_fault", s.PlanFault},
		{"review.passes_bad", s.Review.PassesBad},
		{"review.fails_good", s.Review.FailsGood},
	} {
		where := "model.simulated." + r.name
		if r.val == "" {
			c.fail(where, "is missing; write \"0\" for never")
			continue
		}
		v, err := budget.ParseUSD(r.val) // the same decimal form: at most six places
		if err != nil || v > 1_000_000 {
			c.fail(where, "is %q; use a decimal from 0 to 1 with at most six places", r.val)
		}
	}
	l := s.LatencyMS
	c.require(l.Median >= 1 && l.P95 >= l.Median && l.P95 <= simulated.MaxLatencyMS,
		"model.simulated.latency_ms", "needs 1 <= median <= p95 <= %d", simulated.MaxLatencyMS)
}
