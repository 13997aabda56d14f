package attest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// CheckFreeze compares a verdict and subjects with the freeze that the verdict
// names. Every digest of every subject must be one that the manifest holds: a
// binary or file (sha256), the frozen root as a whole (dirHash), or the commit
// that a binary was built from (gitCommit). A release of anything else was not
// what ran. Errors are ErrRefused.
func CheckFreeze(m *freeze.Manifest, d *gate.Document, subjects []Resource) error {
	switch {
	case m == nil:
		return fmt.Errorf("%w: the verdict names freeze %s; its manifest is needed to show that it covers the subjects", ErrRefused, d.Freeze.ID)
	case d.Freeze.ID == "":
		return fmt.Errorf("%w: a manifest is given, and the campaign ran without a freeze", ErrRefused)
	}
	id, err := m.ID()
	if err != nil {
		return err
	}
	if id != d.Freeze.ID {
		return fmt.Errorf("%w: the verdict names freeze %s, the manifest is %s", ErrRefused, d.Freeze.ID, id)
	}
	covered := coveredBy(m)
	for _, s := range subjects {
		for _, alg := range slices.Sorted(maps.Keys(s.Digest)) {
			if !covered[alg+":"+s.Digest[alg]] {
				return fmt.Errorf("%w: subject %q: %s %s is not in freeze %s: what is released must be what was frozen", ErrRefused, s.Name, alg, s.Digest[alg], id)
			}
		}
	}
	return nil
}

// Subjects are the binaries of a manifest as subjects.
func Subjects(m *freeze.Manifest) []Resource {
	var out []Resource
	seen := map[string]int{}
	for _, b := range m.Binaries {
		name := "qualify " + b.Platform
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		out = append(out, Resource{name, map[string]string{"sha256": b.SHA256}})
	}
	return out
}

// coveredBy lists what a manifest holds as "algorithm:hex".
func coveredBy(m *freeze.Manifest) map[string]bool {
	out := map[string]bool{}
	for _, b := range m.Binaries {
		out["sha256:"+b.SHA256] = true
		if c := b.Settings["vcs.revision"]; c != "" && b.Settings["vcs.modified"] == "false" {
			out["gitCommit:"+c] = true
		}
	}
	for _, t := range m.Trees {
		// The h1 of a folder below the root is over other names than in-toto's.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(t.H1, "h1:")); err == nil && t.Path == "." {
			out["dirHash:"+hex.EncodeToString(sum)] = true
		}
		for _, f := range t.Files {
			if !f.Link {
				out["sha256:"+f.SHA256] = true
			}
		}
	}
	return out
}
