package lint

import (
	"strings"
	"unicode"

	"github.com/agentrooms/qualify/corpus"
)

// nearShare is the share of common word triples from which two cases count as
// one told twice. Cases of one family that were written apart share a tenth.
const nearShare = 0.6

// nearDuplicates finds cases that say what another one says with other names
// and numbers (qualification Q6). Across the splits such a case has been seen
// by whoever worked on the other one; within a split it is one observation
// counted twice. The family does not matter: a copy stays a copy under another
// name.
//
// Across the splits the finding stands at the holdout case, within one at the
// later of the two in corpus order.
func nearDuplicates(r *report, c *corpus.Corpus) {
	said := make([]map[string]bool, len(c.Cases))
	for i, k := range c.Cases {
		said[i] = triples(k)
	}
	for i, a := range c.Cases {
		for j, b := range c.Cases[:i] {
			share := alike(said[i], said[j])
			if share < nearShare {
				continue
			}
			at, other := a, b
			if a.Split == corpus.SplitDev && b.Split == corpus.SplitHoldout {
				at, other = b, a
			}
			r.addf(at.ID, RuleNearDuplicate, at.File(), "the %s case says what %s case %s says, but for names and numbers (%.0f%% of the wording)", at.Split, other.Split, other.ID, 100*share)
		}
	}
}

// alike is the Jaccard index of two sets.
func alike(a, b map[string]bool) float64 {
	common := 0
	for k := range a {
		if b[k] {
			common++
		}
	}
	all := len(a) + len(b) - common
	if all == 0 {
		return 0
	}
	return float64(common) / float64(all)
}

// triples is the set of three words in a row of the task of a case, with
// every name and number replaced by one sign.
func triples(c *corpus.Case) map[string]bool {
	names := namesOf(c)
	out := map[string]bool{}
	for _, text := range textsOf(c) {
		words := wordsOf(text)
		for i, w := range words {
			if names[w] || strings.ContainsFunc(w, unicode.IsDigit) {
				words[i] = "#"
			}
		}
		for i := range words {
			out[strings.Join(words[i:min(i+3, len(words))], " ")] = true
		}
	}
	return out
}

// textsOf is the task in the owner's words. Agents and tools are left out: the
// cases of a family may share them.
func textsOf(c *corpus.Case) []string {
	out := []string{c.Title, c.Room.Goal}
	for _, k := range c.Room.Criteria {
		out = append(out, k.Text)
	}
	for _, m := range c.Owner.Messages {
		out = append(out, m.Text)
	}
	for _, m := range c.Owner.Corrections {
		out = append(out, m.Text)
	}
	return out
}

// namesOf are the words that name somebody or something in a case: people,
// agents, and every key of the documents.
func namesOf(c *corpus.Case) map[string]bool {
	names := map[string]bool{}
	add := func(s string) {
		for _, w := range wordsOf(s) {
			names[w] = true
		}
	}
	add(c.Room.Owner.ID)
	add(c.Room.Owner.Name)
	for _, a := range c.Room.Agents {
		add(a.ID)
		for _, alias := range a.Aliases {
			add(alias)
		}
	}
	for name, doc := range c.World.Documents {
		add(name)
		if tree, err := doc.Tree(); err == nil { // always: the loader has read it
			keysOf(tree, add)
		}
	}
	return names
}

func keysOf(v any, add func(string)) {
	switch n := v.(type) {
	case map[string]any:
		for k, x := range n {
			add(k)
			keysOf(x, add)
		}
	case []any:
		for _, x := range n {
			keysOf(x, add)
		}
	}
}

// wordsOf splits a text into lower-case words; a hyphen belongs to its word.
func wordsOf(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-'
	})
}
