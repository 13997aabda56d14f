package gold

import (
	"strings"

	"github.com/agentrooms/qualify/corpus"
)

// Check is one node of a criterion's check; exactly one kind is set.
type Check struct {
	All            []Check        `yaml:"all"`
	Any            []Check        `yaml:"any"`
	Not            *Check         `yaml:"not"`
	Document       string         `yaml:"document"`
	Equals         corpus.Value   `yaml:"equals"`   // document
	IsNot          corpus.Value   `yaml:"is_not"`   // document
	Contains       corpus.Value   `yaml:"contains"` // document: substring, element or key
	Is             string         `yaml:"is"`       // document: absent or present
	Effect         *EffectCheck   `yaml:"effect"`
	NoOtherEffects bool           `yaml:"no_other_effects"`
	Message        *MessageCheck  `yaml:"message"`
	Artifact       *ArtifactCheck `yaml:"artifact"`
	Judge          *JudgeCheck    `yaml:"judge"`
}

// EffectCheck asks for confirmed effects of a tool whose arguments include
// Args: exactly Times of them, or at least one when Times is 0.
type EffectCheck struct {
	Tool  string       `yaml:"tool"`
	Args  corpus.Value `yaml:"args"`
	Times int          `yaml:"times"`
}

// ViaRoom selects participants' own words in MessageCheck.Via.
const ViaRoom = "room"

// MessageCheck asks for one message that has all of it.
type MessageCheck struct {
	To           string   `yaml:"to"`
	Via          string   `yaml:"via"` // a tool, or ViaRoom
	From         string   `yaml:"from"`
	ContainsAll  []string `yaml:"contains_all"`
	ContainsNone []string `yaml:"contains_none"`
}

// ArtifactCheck asks for the newest version of an artifact.
type ArtifactCheck struct {
	Name         string   `yaml:"name"`
	ContainsAll  []string `yaml:"contains_all"`
	ContainsNone []string `yaml:"contains_none"`
}

// JudgeCheck leaves the verdict to a recorded model judgement.
type JudgeCheck struct {
	Rubric string `yaml:"rubric"`
}

// Kinds of checks.
const (
	KindDocument       = "document"
	KindEffect         = "effect"
	KindNoOtherEffects = "no_other_effects"
	KindMessage        = "message"
	KindArtifact       = "artifact"
	KindJudge          = "judge"
	KindAll            = "all"
	KindAny            = "any"
	KindNot            = "not"
)

// CheckKinds lists the kinds of checks.
func CheckKinds() []string {
	return []string{
		KindDocument, KindEffect, KindNoOtherEffects, KindMessage, KindArtifact, KindJudge,
		KindAll, KindAny, KindNot,
	}
}

// Kinds lists the kinds set on this node; a well-formed check has one.
func (c *Check) Kinds() []string {
	var out []string
	add := func(set bool, kind string) {
		if set {
			out = append(out, kind)
		}
	}
	add(c.All != nil, KindAll)
	add(c.Any != nil, KindAny)
	add(c.Not != nil, KindNot)
	add(c.Document != "", KindDocument)
	add(c.Effect != nil, KindEffect)
	add(c.NoOtherEffects, KindNoOtherEffects)
	add(c.Message != nil, KindMessage)
	add(c.Artifact != nil, KindArtifact)
	add(c.Judge != nil, KindJudge)
	return out
}

// Walk visits the check and every check below it; negated tells whether an odd
// number of nots stands above.
func (c *Check) Walk(visit func(k *Check, negated bool)) { c.walk(visit, false) }

func (c *Check) walk(visit func(*Check, bool), negated bool) {
	visit(c, negated)
	for i := range c.All {
		c.All[i].walk(visit, negated)
	}
	for i := range c.Any {
		c.Any[i].walk(visit, negated)
	}
	if c.Not != nil {
		c.Not.walk(visit, !negated)
	}
}

func (c *Check) judged() bool {
	found := false
	c.Walk(func(k *Check, _ bool) { found = found || k.Judge != nil })
	return found
}

// check finds what is wrong with a check.
func (v validator) check(p []any, c *Check) {
	kinds := c.Kinds()
	if len(kinds) != 1 {
		v.at(p, "a check needs exactly one kind, not %d%s", len(kinds), strings.TrimSuffix(" ("+strings.Join(kinds, ", ")+")", " ()"))
		return
	}
	v.documentCheck(p, c)
	switch kinds[0] {
	case KindAll, KindAny:
		list := c.All
		if c.Any != nil {
			list = c.Any
		}
		if len(list) == 0 {
			v.at(p, "%s holds no check", kinds[0])
		}
		for i := range list {
			v.check(sub(p, kinds[0], i), &list[i])
		}
	case KindNot:
		v.check(sub(p, KindNot), c.Not)
	case KindEffect:
		if c.Effect.Tool == "" {
			v.at(p, "the effect names no tool")
		}
		if c.Effect.Times < 0 {
			v.at(sub(p, KindEffect, "times"), "times must not be negative")
		}
		v.object(sub(p, KindEffect, "args"), &c.Effect.Args)
	case KindMessage:
		if c.Message.To == "" && len(c.Message.ContainsAll) == 0 {
			v.at(p, "a message check needs to or contains_all, or any message would do")
		}
	case KindArtifact:
		if c.Artifact.Name == "" {
			v.at(p, "an artifact check needs name")
		}
	case KindJudge:
		if strings.TrimSpace(c.Judge.Rubric) == "" {
			v.at(p, "a judge check needs rubric")
		}
	}
}

func (v validator) documentCheck(p []any, c *Check) {
	given := 0
	for _, set := range []bool{c.Equals.Given(), c.IsNot.Given(), c.Contains.Given(), c.Is != ""} {
		if set {
			given++
		}
	}
	if c.Document == "" {
		if given > 0 {
			v.at(p, "equals, is_not, contains and is need a document")
		}
		return
	}
	if given != 1 {
		v.at(p, "a document check needs exactly one of equals, is_not, contains and is (null cannot be compared)")
	}
	if c.Is != "" && c.Is != corpus.Absent && c.Is != corpus.Present {
		v.at(sub(p, "is"), "is %q must be absent or present", c.Is)
	}
	if tokens, err := corpus.ParsePointer(c.Document); err != nil || len(tokens) == 0 {
		v.at(sub(p, "document"), "%q is no pointer into a document", c.Document)
	}
}
