package evaluator

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/agentrooms/qualify/evaluator/trace"
)

// EffectsSchema is the schema name of an effect profile.
const EffectsSchema = "qualify/effects/v1"

//go:embed effects/*.yaml
var builtinEffects embed.FS

// Profile says what the tools of a family of recorded traces do: which write,
// how an error looks, what ends a conversation.
type Profile struct {
	Schema string `yaml:"schema"`
	Name   string `yaml:"name"`
	Match  struct {
		Telling []string `yaml:"telling"` // tools that only this family has
		Shared  []string `yaml:"shared"`  // tools it shares with others
	} `yaml:"match"`
	ErrorResult struct {
		Prefix string `yaml:"prefix"` // byte prefix of a result that is an error
	} `yaml:"error_result"`
	Writes map[string]WriteTool `yaml:"writes"`
	Ends   struct {
		Tools    []string `yaml:"tools"`
		UserText string   `yaml:"user_text"`
	} `yaml:"ends"`
	UserCost struct {
		Unit string `yaml:"unit"` // usd, or empty: the field is not money
	} `yaml:"user_cost"`
}

// WriteTool declares the identity of a write: the arguments that name its
// target and those that do not count.
type WriteTool struct {
	Target   []string `yaml:"target"`
	Volatile []string `yaml:"volatile"`
}

// ParseProfile reads a profile strictly; file names it in errors, which carry
// file:line where YAML tells.
func ParseProfile(file string, data []byte) (*Profile, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	p := new(Profile)
	if err := dec.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: empty effect profile", file)
		}
		return nil, yamlError(file, err)
	}
	if err := dec.Decode(new(Profile)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one YAML document", file)
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// yamlError turns "yaml: unmarshal errors:\n  line 3: …" into one line
// "file:3: …"; of several faults it gives the first.
func yamlError(file string, err error) error {
	msg := err.Error()
	var te *yaml.TypeError
	if errors.As(err, &te) && len(te.Errors) > 0 {
		msg = te.Errors[0]
	}
	msg = strings.TrimPrefix(msg, "yaml: ")
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			return fmt.Errorf("%s:%s: %s", file, line, what)
		}
	}
	return fmt.Errorf("%s: %s", file, msg)
}

func (p *Profile) validate() error {
	if p.Schema != EffectsSchema {
		return fmt.Errorf("schema %q, want %q", p.Schema, EffectsSchema)
	}
	if p.Name == "" || p.Name == EffectsNone || p.Name == EffectsAuto {
		return fmt.Errorf("name %q cannot be used", p.Name)
	}
	if len(p.Match.Telling) == 0 {
		return errors.New("match.telling is empty: the profile could never be chosen")
	}
	if p.ErrorResult.Prefix == "" {
		return errors.New("error_result.prefix is empty: every result would be an error")
	}
	seen := map[string]bool{}
	for _, t := range slices.Concat(p.Match.Telling, p.Match.Shared) {
		if seen[t] {
			return fmt.Errorf("tool %q is listed twice under match", t)
		}
		seen[t] = true
	}
	for _, t := range sortedKeys(p.Writes) {
		if !seen[t] {
			return fmt.Errorf("write tool %q is not listed under match", t)
		}
	}
	for _, t := range p.Ends.Tools {
		if !seen[t] {
			return fmt.Errorf("ending tool %q is not listed under match", t)
		}
	}
	if p.UserCost.Unit != "" && p.UserCost.Unit != "usd" {
		return fmt.Errorf("user_cost.unit %q, want usd or nothing", p.UserCost.Unit)
	}
	return nil
}

// fits reports whether the profile lists every tool called and at least one of
// them is telling.
func (p *Profile) fits(called []string) bool {
	telling := false
	for _, t := range called {
		switch {
		case slices.Contains(p.Match.Telling, t):
			telling = true
		case !slices.Contains(p.Match.Shared, t):
			return false
		}
	}
	return telling
}

// isError reports whether a tool result is an error. An empty list or null is
// a result.
func (p *Profile) isError(result string) bool {
	return strings.HasPrefix(result, p.ErrorResult.Prefix)
}

// BuiltinProfiles lists the built-in profiles by name.
func BuiltinProfiles() ([]*Profile, error) {
	entries, err := builtinEffects.ReadDir("effects")
	if err != nil {
		return nil, fmt.Errorf("built-in effect profiles: %w", err)
	}
	var out []*Profile
	for _, e := range entries {
		name := path.Join("effects", e.Name())
		data, err := builtinEffects.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("built-in effect profile %s: %w", name, err)
		}
		p, err := ParseProfile(name, data)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Words of --effects that are no profile.
const (
	EffectsAuto = "auto"
	EffectsNone = "none"
)

// Effects is a choice of profiles: None, one Profile for every file, or, when
// both are unset, the built-in one that fits.
type Effects struct {
	None    bool
	Profile *Profile
}

// LoadEffects reads the value of --effects: "" or auto, none, the name of a
// built-in profile, or a file.
func LoadEffects(spec string) (Effects, error) {
	switch spec {
	case "", EffectsAuto:
		return Effects{}, nil
	case EffectsNone:
		return Effects{None: true}, nil
	}
	all, err := BuiltinProfiles()
	if err != nil {
		return Effects{}, err
	}
	var names []string
	for _, p := range all {
		if p.Name == spec {
			return Effects{Profile: p}, nil
		}
		names = append(names, p.Name)
	}
	data, err := trace.ReadFile(spec)
	if err != nil {
		return Effects{}, fmt.Errorf("effects %q is neither a built-in profile (%s) nor a readable file: %w", spec, strings.Join(names, ", "), err)
	}
	p, err := ParseProfile(spec, data)
	if err != nil {
		return Effects{}, err
	}
	return Effects{Profile: p}, nil
}

// choose gives the profile for a file in which the tools called were used, or
// the reason why there is none.
func (e Effects) choose(called []string) (*Profile, string, error) {
	switch {
	case e.None:
		return nil, "no effect profile (--effects none)", nil
	case e.Profile != nil:
		for _, t := range called {
			if !slices.Contains(e.Profile.Match.Telling, t) && !slices.Contains(e.Profile.Match.Shared, t) {
				return nil, fmt.Sprintf("effect profile %s does not list the tool %s", e.Profile.Name, t), nil
			}
		}
		return e.Profile, "", nil
	}
	all, err := BuiltinProfiles()
	if err != nil {
		return nil, "", err
	}
	var fit []*Profile
	var names []string
	for _, p := range all {
		if p.fits(called) {
			fit, names = append(fit, p), append(names, p.Name)
		}
	}
	switch len(fit) {
	case 0:
		return nil, "no effect profile fits the tools called", nil
	case 1:
		return fit[0], "", nil
	default:
		return nil, "more than one effect profile fits: " + strings.Join(names, ", "), nil
	}
}
