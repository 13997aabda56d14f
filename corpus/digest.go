package corpus

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// Digest is "sha256:" and the SHA-256 of the canonical JSON of the parsed
// case: formatting, comments, key order and line endings do not matter.
func (c *Case) Digest() (string, error) {
	b, err := engine.Canonical(c)
	if err != nil {
		return "", fmt.Errorf("digest of case %s: %w", c.ID, err)
	}
	return "sha256:" + engine.Digest(b), nil
}

// Digest covers every case of the corpus.
func (c *Corpus) Digest() (string, error) { return digestCases(c.Cases) }

// SplitDigest covers the cases of one split.
func (c *Corpus) SplitDigest(split string) (string, error) {
	var cases []*Case
	for _, k := range c.Cases {
		if k.Split == split {
			cases = append(cases, k)
		}
	}
	return digestCases(cases)
}

// digestCases hashes the list of (id, digest) in corpus order.
func digestCases(cases []*Case) (string, error) {
	list := make([][2]string, 0, len(cases))
	for _, c := range cases {
		d, err := c.Digest()
		if err != nil {
			return "", err
		}
		list = append(list, [2]string{c.ID, d})
	}
	b, err := engine.Canonical(list)
	if err != nil {
		return "", fmt.Errorf("digest of corpus: %w", err)
	}
	return "sha256:" + engine.Digest(b), nil
}
