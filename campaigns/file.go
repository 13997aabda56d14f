package campaigns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/model"
)

// SchemaCampaign is the schema name of campaign files.
const SchemaCampaign = "qualify/campaign/v1"

// File is a campaign file as written (shapes.md). Money is in decimal strings.
type File struct {
	Schema    string                      `yaml:"schema"`
	Name      string                      `yaml:"name"`
	Seed      uint64                      `yaml:"seed"`
	Corpus    string                      `yaml:"corpus"` // builtin, or a folder relative to the file
	Cases     CaseFilter                  `yaml:"cases"`
	Trials    int                         `yaml:"trials"`
	Arms      []ArmFile                   `yaml:"arms"`
	UnderTest []string                    `yaml:"under_test"`
	Model     ModelFile                   `yaml:"model"`
	Prices    map[string]model.PriceText `yaml:"prices"`
	Clock     string                      `yaml:"clock"` // virtual or wall
	Ceiling   string                      `yaml:"ceiling"`
	CeilUSD   string                      `yaml:"ceiling_usd"`
	Parallel  int                         `yaml:"parallel"`
	Infra     []string                    `yaml:"infrastructure_faults"`
	Controls  *bool                       `yaml:"controls"`
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

// FileError is a fault of a campaign file, with its place.
type FileError struct {
	Path string
	Line int // 0 when the fault has no single line
	Msg  string
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Msg)
	}
	return e.Path + ": " + e.Msg
}

// ParseFile reads and checks a campaign file; path is used in errors only.
// Every fault is a *FileError.
func ParseFile(path string, data []byte) (*File, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &FileError{path, 0, "the file is empty; a campaign needs at least schema, name, trials, arms, model and prices"}
	}
	var f File
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return nil, yamlError(path, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &FileError{path, 0, "more than one YAML document; keep one campaign to a file"}
	}
	if err := f.check(path, locate(data)); err != nil {
		return nil, err
	}
	return &f, nil
}

var (
	lineRE  = regexp.MustCompile(`line (\d+): (.*)`)
	fieldRE = regexp.MustCompile(`field (\S+) not found in type \S+`)
)

// yamlError turns the decoder's first complaint into one line with its place.
func yamlError(path string, err error) error {
	msg := err.Error()
	var te *yaml.TypeError
	if errors.As(err, &te) && len(te.Errors) > 0 {
		msg = te.Errors[0]
	}
	m := lineRE.FindStringSubmatch(msg)
	if m == nil {
		return &FileError{path, 0, strings.TrimPrefix(msg, "yaml: ")}
	}
	line, _ := strconv.Atoi(m[1]) //nolint:errcheck // the pattern has digits only; an overflow leaves 0, which prints no line
	text := m[2]
	if fm := fieldRE.FindStringSubmatch(text); fm != nil {
		text = fmt.Sprintf("unknown field %q", fm[1])
	}
	return &FileError{path, line, text}
}

// locator finds the line of a YAML path such as "arms.1.mode"; 0 if absent.
type locator func(path string) int

func locate(data []byte) locator {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 {
		return func(string) int { return 0 }
	}
	return func(path string) int {
		n, line := root.Content[0], 0
		for _, part := range strings.Split(path, ".") {
			var next *yaml.Node
			switch n.Kind {
			case yaml.MappingNode:
				for i := 0; i+1 < len(n.Content); i += 2 {
					if n.Content[i].Value == part {
						next, line = n.Content[i+1], n.Content[i].Line
					}
				}
			case yaml.SequenceNode:
				if i, err := strconv.Atoi(part); err == nil && i < len(n.Content) {
					next = n.Content[i]
					line = next.Line
				}
			case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
			}
			if next == nil {
				return line
			}
			n = next
		}
		return line
	}
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// fileChecker collects the first fault of a file with its line.
type fileChecker struct {
	path string
	at   locator
	err  error
}

func (c *fileChecker) fail(where, format string, args ...any) {
	if c.err == nil {
		c.err = &FileError{c.path, c.at(where), where + ": " + fmt.Sprintf(format, args...)}
	}
}

func (c *fileChecker) require(ok bool, where, format string, args ...any) {
	if !ok {
		c.fail(where, format, args...)
	}
}

func (f *File) check(path string, at locator) error {
	c := &fileChecker{path: path, at: at}
	c.require(f.Schema == SchemaCampaign, "schema", "is %q; this version reads %s", f.Schema, SchemaCampaign)
	c.require(nameRE.MatchString(f.Name), "name", "%q is no name; use lower-case letters, digits, '.', '_' and '-', at most 64", f.Name)
	c.require(f.Trials >= 1, "trials", "is %d; a campaign needs at least 1 trial per case and arm", f.Trials)
	c.require(f.Trials <= 10000, "trials", "is %d; at most 10000", f.Trials)
	c.require(f.Parallel >= 0 && f.Parallel <= 1024, "parallel", "is %d; use 1 to 1024", f.Parallel)
	c.require(f.Clock == "" || f.Clock == "virtual" || f.Clock == "wall", "clock", "is %q; use virtual or wall", f.Clock)
	if f.Ceiling != "" {
		c.require(nameRE.MatchString(f.Ceiling), "ceiling", "%q is no name", f.Ceiling)
	}
	if f.CeilUSD != "" {
		if _, err := budget.ParseUSD(f.CeilUSD); err != nil {
			c.fail("ceiling_usd", "%v", err)
		}
	} else {
		c.fail("ceiling_usd", "is missing; name the most this campaign may spend, e.g. \"1.00\"")
	}
	f.checkArms(c)
	f.checkModel(c)
	if c.err != nil {
		return c.err
	}
	return nil
}

func (f *File) checkArms(c *fileChecker) {
	c.require(len(f.Arms) > 0, "arms", "is empty; name at least one arm")
	seen := map[string]int{}
	matched := 0
	for i, a := range f.Arms {
		where := "arms." + strconv.Itoa(i)
		c.require(nameRE.MatchString(a.Name), where+".name", "%q is no name; use lower-case letters, digits, '.', '_' and '-'", a.Name)
		if j, dup := seen[a.Name]; dup {
			c.fail(where+".name", "%q is also the name of arm %d (line %d)", a.Name, j, c.at("arms."+strconv.Itoa(j)+".name"))
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

func (f *File) checkModel(c *fileChecker) {
	c.require(f.Model.Provider != "", "model.provider", "is missing")
	c.require(f.Model.Name != "", "model.name", "is missing")
	if n, ok := f.Model.Params["max_output_tokens"]; !ok {
		c.fail("model.params", "max_output_tokens is missing; without it a call has no bound on its cost")
	} else if v, err := strconv.Atoi(n); err != nil || v < 1 || v > 1_000_000 {
		c.fail("model.params.max_output_tokens", "is %q; use a whole number from 1 to 1000000", n)
	}
	if _, ok := f.Prices[f.Model.Name]; !ok {
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
		{"skip_step", s.SkipStep}, {"wrong_argument", s.WrongArgument}, {"early_claim", s.EarlyClaim},
		{"malformed_json", s.MalformedJSON}, {"missing_usage", s.MissingUsage}, {"lost_reply", s.LostReply},
		{"retry_after_unknown", s.RetryAfterUnknown}, {"plan_fault", s.PlanFault},
		{"review.passes_bad", s.Review.PassesBad}, {"review.fails_good", s.Review.FailsGood},
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
	c.require(s.LatencyMS.Median >= 1 && s.LatencyMS.P95 >= s.LatencyMS.Median, "model.simulated.latency_ms", "needs 1 <= median <= p95")
}
