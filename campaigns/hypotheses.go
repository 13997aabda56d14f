package campaigns

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentrooms/qualify/corpus"
)

// Hypothesis is what a campaign expects to find, said before its first trial
// (Q4.1). The rules of the registered policy that it names decide it; it adds
// nothing to what they ask.
type Hypothesis struct {
	Text  string   `yaml:"text" json:"text"`   // one line
	Rules []string `yaml:"rules" json:"rules"` // ids, at least one
	// Primary marks the one hypothesis that the campaign is made for; the metric of
	// its first rule is the primary metric.
	Primary bool `yaml:"primary" json:"primary"`
}

// mostHypothesis bounds the text of a hypothesis, in characters.
const mostHypothesis = 300

// checkHypotheses finds what is wrong with the hypotheses of a file alone; their
// rules are looked up when the policy is read.
func (f *File) checkHypotheses(c *fileChecker) {
	if len(f.Hypotheses) > 0 && f.Policy == "" {
		c.fail("hypotheses", "need a policy, whose rules decide them; name it with policy, or take them out")
	}
	primary := ""
	for i, h := range f.Hypotheses {
		where := "hypotheses." + strconv.Itoa(i)
		switch n := utf8.RuneCountInString(h.Text); {
		case strings.TrimSpace(h.Text) == "":
			c.fail(where+".text", "is empty; say in one line what the campaign expects to find")
		case strings.ContainsFunc(h.Text, breaksLine):
			c.fail(where+".text", "is more than one line; write one, without line ends and control characters")
		case n > mostHypothesis:
			c.fail(where+".text", "has %d characters; use at most %d", n, mostHypothesis)
		}
		if len(h.Rules) == 0 {
			c.fail(where+".rules", "is empty; name the rules of the policy that decide it")
		}
		for j, id := range h.Rules {
			c.require(!slices.Contains(h.Rules[:j], id), where+".rules."+strconv.Itoa(j), "%q stands there twice", id)
		}
		if !h.Primary {
			continue
		}
		if primary != "" {
			c.fail(where+".primary", "line %d has the primary hypothesis already; there is at most one", c.line(primary))
			continue
		}
		primary = where + ".primary"
	}
}

// breaksLine reports what does not belong in one line of text.
func breaksLine(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// resolveHypotheses takes over the hypotheses of a file. Rules that the policy
// does not have are corpus.Errors with their lines.
func (p *Plan) resolveHypotheses(f *File, path string) error {
	var faults corpus.Errors
	for i, h := range f.Hypotheses {
		for j, id := range h.Rules {
			if p.Policy != nil && p.Policy.rule(id) != nil {
				continue
			}
			where := "hypotheses." + strconv.Itoa(i) + ".rules." + strconv.Itoa(j)
			text := where + ": " + strconv.Quote(id) + " is no rule of the policy"
			if p.Policy != nil {
				text += " " + p.Policy.Name + "; it has " + strings.Join(p.Policy.ids(), ", ")
			}
			faults = append(faults, &corpus.FileError{File: path, Line: f.line(where), Text: text})
		}
		h.Rules = slices.Clone(h.Rules)
		p.Hypotheses = append(p.Hypotheses, h)
	}
	return faults.Err()
}

// PrimaryMetric is the metric of the first rule of the primary hypothesis, ""
// where none is primary.
func (p *Plan) PrimaryMetric() string {
	for _, h := range p.Hypotheses {
		if !h.Primary || len(h.Rules) == 0 || p.Policy == nil {
			continue
		}
		if r := p.Policy.rule(h.Rules[0]); r != nil {
			return r.Metric
		}
	}
	return ""
}
