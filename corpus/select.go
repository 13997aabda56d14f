package corpus

import (
	"fmt"
	"path"
)

// Select returns the cases of a split ("" for all) that match one of the
// include patterns (none given: all) and none of the exclude patterns, in
// corpus order. A pattern is a glob over the id, the family, or family/id.
//
// Errors: a malformed pattern; an include pattern that matches no case of the
// split, so that a misspelt filter does not quietly shrink a campaign.
func (c *Corpus) Select(split string, include, exclude []string) ([]*Case, error) {
	for _, p := range append(append([]string{}, include...), exclude...) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("case pattern %q: %w", p, err)
		}
	}
	used := make([]bool, len(include))
	var out []*Case
	for _, k := range c.Cases {
		if split != "" && k.Split != split {
			continue
		}
		in := len(include) == 0
		for i, p := range include {
			if matches(p, k) {
				in, used[i] = true, true
			}
		}
		for _, p := range exclude {
			in = in && !matches(p, k)
		}
		if in {
			out = append(out, k)
		}
	}
	for i, u := range used {
		if !u {
			return nil, fmt.Errorf("case pattern %q matches no case of split %q", include[i], split)
		}
	}
	return out, nil
}

func matches(pattern string, c *Case) bool {
	for _, s := range []string{c.ID, c.Family, c.Family + "/" + c.ID} {
		if ok, err := path.Match(pattern, s); err == nil && ok {
			return true
		}
	}
	return false
}

// Families lists the families of cases in order, each once.
func Families(cases []*Case) []string {
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.Family] = true
	}
	return sortedKeys(seen)
}
