package gold

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
)

// Outcome is what a trial left behind, in neutral form: everything that is
// judged, and nothing of what the agents say about themselves.
type Outcome struct {
	Documents map[string]json.RawMessage
	Messages  []Message
	Artifacts []Artifacted
	Effects   []Effect
	Judged    map[string]Verdict // recorded judgements by criterion id
}

// Message was said in the room or sent by a tool.
type Message struct {
	From, To string
	Via      string // tool; "" for words in the room
	Text     string
}

// Artifacted is one version of a room artifact.
type Artifacted struct {
	Name    string
	Version int
	Text    string
}

// States of effects.
const (
	StateConfirmed = "confirmed"
)

// Effect is one record of the effect ledger, in the order of the ledger.
type Effect struct {
	Tool       string
	Args       json.RawMessage
	Target     string
	Identity   string
	State      string
	Suppressed bool
}

// took reports whether the effect changed the world.
func (e Effect) took() bool { return e.State == StateConfirmed && !e.Suppressed }

// Verdict of a criterion.
type Verdict string

// Verdicts. VerdictError means that the check could not be decided; it is
// never a pass.
const (
	VerdictMet   Verdict = "met"
	VerdictUnmet Verdict = "unmet"
	VerdictError Verdict = "error"
)

// finding is a verdict with its reason.
type finding struct {
	verdict Verdict
	why     string
}

func met(why string) finding   { return finding{VerdictMet, why} }
func unmet(why string) finding { return finding{VerdictUnmet, why} }
func broken(why string) finding {
	return finding{VerdictError, why}
}

func verdictOf(ok bool, why string) finding {
	if ok {
		return met(why)
	}
	return unmet(why)
}

// judge evaluates checks of one criterion over an outcome.
type judge struct {
	gold      *Gold
	out       *Outcome
	criterion string
	trees     map[string]any
}

func (j *judge) eval(c *Check) finding {
	switch {
	case c.All != nil:
		return j.all(c.All)
	case c.Any != nil:
		return j.any(c.Any)
	case c.Not != nil:
		return negate(j.eval(c.Not))
	case c.Document != "":
		return j.document(c)
	case c.Effect != nil:
		return j.effect(c.Effect)
	case c.NoOtherEffects:
		return j.noOther()
	case c.Message != nil:
		return j.message(c.Message)
	case c.Artifact != nil:
		return j.artifact(c.Artifact)
	case c.Judge != nil:
		return j.judged()
	}
	return broken("the check has no kind")
}

// all is met when every part is. One part in error makes the whole an error:
// its verdict must not be lost under a negation further up.
func (j *judge) all(list []Check) finding {
	result := met("every part holds")
	for i := range list {
		f := j.eval(&list[i])
		if f.verdict == VerdictError {
			return f
		}
		if f.verdict == VerdictUnmet && result.verdict == VerdictMet {
			result = f
		}
	}
	return result
}

func (j *judge) any(list []Check) finding {
	var whys []string
	result := finding{verdict: VerdictUnmet}
	for i := range list {
		f := j.eval(&list[i])
		if f.verdict == VerdictError {
			return f
		}
		if f.verdict == VerdictMet && result.verdict == VerdictUnmet {
			result = f
		}
		whys = append(whys, f.why)
	}
	if result.verdict == VerdictUnmet {
		result.why = strings.Join(whys, "; ")
	}
	return result
}

func negate(f finding) finding {
	switch f.verdict {
	case VerdictMet:
		return unmet("must not be: " + f.why)
	case VerdictUnmet:
		return met("as it should not be: " + f.why)
	case VerdictError:
		return f
	}
	return broken("unknown verdict " + string(f.verdict))
}

func (j *judge) document(c *Check) finding {
	tokens, err := corpus.ParsePointer(c.Document)
	if err != nil || len(tokens) == 0 {
		return broken(fmt.Sprintf("%q is no pointer into a document", c.Document))
	}
	var got any
	there := false
	if raw, ok := j.out.Documents[tokens[0]]; ok {
		tree, ok := j.trees[tokens[0]]
		if !ok {
			if tree, err = corpus.DecodeTree(raw); err != nil {
				return broken(fmt.Sprintf("document %s cannot be read: %v", tokens[0], err))
			}
			j.trees[tokens[0]] = tree
		}
		got, there = corpus.Resolve(tree, tokens[1:])
	}
	shown := "absent"
	if there {
		shown = short(corpus.PlainText(got))
	}
	why := c.Document + " is " + shown
	switch c.Is {
	case corpus.Absent:
		return verdictOf(!there, why)
	case corpus.Present:
		return verdictOf(there, why)
	}
	want := c.Equals
	if c.IsNot.Given() {
		want = c.IsNot
	} else if c.Contains.Given() {
		want = c.Contains
	}
	tree, err := want.Tree()
	if err != nil {
		return broken(fmt.Sprintf("the wanted value of %s cannot be read: %v", c.Document, err))
	}
	switch {
	case c.Equals.Given():
		return verdictOf(there && corpus.EqualTrees(got, tree), why+", wanted "+short(want.String()))
	case c.IsNot.Given():
		return verdictOf(!there || !corpus.EqualTrees(got, tree), why+", not wanted "+short(want.String()))
	}
	return verdictOf(there && holds(got, tree), why+", wanted in it "+short(want.String()))
}

// holds reports whether a value contains another: a text a text, a list an
// element, an object a key.
func holds(got, want any) bool {
	switch g := got.(type) {
	case string:
		return containsText(g, corpus.PlainText(want))
	case []any:
		return slices.ContainsFunc(g, func(e any) bool { return corpus.EqualTrees(e, want) })
	case map[string]any:
		_, ok := g[corpus.PlainText(want)]
		return ok
	}
	return false
}

func (j *judge) effect(c *EffectCheck) finding {
	n := 0
	for _, e := range j.out.Effects {
		if !e.took() || e.Tool != c.Tool {
			continue
		}
		ok, err := includes(e.Args, c.Args)
		if err != nil {
			return broken(err.Error())
		}
		if ok {
			n++
		}
	}
	why := fmt.Sprintf("%s %s confirmed %d times", c.Tool, short(c.Args.String()), n)
	if c.Times == 0 {
		return verdictOf(n > 0, why)
	}
	return verdictOf(n == c.Times, fmt.Sprintf("%s, wanted %d", why, c.Times))
}

func (j *judge) noOther() finding {
	t, err := tally(j.gold, j.out.Effects)
	if err != nil {
		return broken(err.Error())
	}
	if len(t.Collateral) > 0 {
		e := j.out.Effects[t.Collateral[0]]
		return unmet(fmt.Sprintf("%d other effects, first %s %s", len(t.Collateral), e.Tool, short(string(e.Args))))
	}
	return met("no other effects")
}

func (j *judge) message(c *MessageCheck) finding {
	why := fmt.Sprintf("none of %d messages fits", len(j.out.Messages))
	for _, m := range j.out.Messages {
		if c.To != "" && !addressed(m.To, c.To) || c.From != "" && m.From != c.From {
			continue
		}
		if c.Via == ViaRoom && m.Via != "" || c.Via != "" && c.Via != ViaRoom && m.Via != c.Via {
			continue
		}
		ok, reason := hasTexts(m.Text, c.ContainsAll, c.ContainsNone)
		if ok {
			return met(fmt.Sprintf("message from %s to %s: %s", m.From, m.To, short(m.Text)))
		}
		why = fmt.Sprintf("the last fitting message (from %s) %s", m.From, reason)
	}
	return unmet(why)
}

// addressed reports whether a comma-separated list of receivers has one.
func addressed(list, to string) bool {
	for _, r := range strings.Split(list, ",") {
		if strings.TrimSpace(r) == to {
			return true
		}
	}
	return false
}

func (j *judge) artifact(c *ArtifactCheck) finding {
	var newest *Artifacted
	for i := range j.out.Artifacts {
		a := &j.out.Artifacts[i]
		if a.Name == c.Name && (newest == nil || a.Version >= newest.Version) {
			newest = a
		}
	}
	if newest == nil {
		return unmet("no artifact " + c.Name)
	}
	ok, reason := hasTexts(newest.Text, c.ContainsAll, c.ContainsNone)
	return verdictOf(ok, fmt.Sprintf("artifact %s version %d %s", c.Name, newest.Version, reason))
}

func (j *judge) judged() finding {
	v, ok := j.out.Judged[j.criterion]
	if !ok {
		return broken("no judgement is recorded")
	}
	if v != VerdictMet && v != VerdictUnmet {
		return broken(fmt.Sprintf("the recorded judgement is %q", v))
	}
	return finding{v, "recorded judgement"}
}

func hasTexts(text string, all, none []string) (bool, string) {
	for _, s := range all {
		if !containsText(text, s) {
			return false, fmt.Sprintf("lacks %q", s)
		}
	}
	for _, s := range none {
		if containsText(text, s) {
			return false, fmt.Sprintf("contains %q", s)
		}
	}
	return true, "has the wanted texts"
}

func containsText(text, part string) bool { return strings.Contains(fold(text), fold(part)) }

// fold lower-cases and joins runs of white space.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// short cuts a text for a reason.
func short(s string) string {
	const most = 80
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most]) + "…"
}
