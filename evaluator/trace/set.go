package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Key is the trial key: case/arm/trial.
func Key(caseID, arm string, trial int) string {
	return caseID + "/" + arm + "/" + strconv.Itoa(trial)
}

// SetEntry is one trace of a set.
type SetEntry struct {
	Key    string // trial key
	Digest string // of the trace's end record
}

// SetDigest identifies a set of traces: "sha256:" and the SHA-256 of the lines
// "key digest\n" sorted bytewise (DESIGN §6). The order of entries does not
// matter. A key that occurs twice is an error.
func SetDigest(entries []SetEntry) (string, error) {
	seen := make(map[string]bool, len(entries))
	lines := make([]string, 0, len(entries))
	for _, e := range entries {
		if seen[e.Key] {
			return "", fmt.Errorf("trace set: key %q twice", e.Key)
		}
		seen[e.Key] = true
		lines = append(lines, e.Key+" "+e.Digest+"\n")
	}
	slices.Sort(lines)
	return "sha256:" + engine.Digest([]byte(strings.Join(lines, ""))), nil
}
