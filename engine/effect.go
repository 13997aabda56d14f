package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// EffectIdentity identifies an effect: tool + canonical arguments without the
// volatile ones + target (qualification Q1). Numbers are normalised, so 25 and
// 25.0 are one identity. args must be a JSON object.
func EffectIdentity(tool string, args []byte, volatile []string, target string) (string, error) {
	canon, err := withoutFields(args, volatile)
	if err != nil {
		return "", fmt.Errorf("effect identity of %s: %w", tool, err)
	}
	return "sha256:" + Digest(fmt.Appendf(nil, "qualify/effect/v1\x00%d:%s%d:%s%s", len(tool), tool, len(target), target, canon)), nil
}

// IdempotencyKey is H(room, scope, tool, canonical arguments without volatile
// ones, n), where scope is the task or message the call serves and n is how
// many earlier calls of this identity in that scope are already known
// confirmed: a retry after an unknown outcome repeats the key, an intended
// second effect does not (DESIGN §2).
func IdempotencyKey(room, scope, tool string, args []byte, volatile []string, n int) (string, error) {
	canon, err := withoutFields(args, volatile)
	if err != nil {
		return "", fmt.Errorf("idempotency key of %s: %w", tool, err)
	}
	return StableID("k_", room, scope, tool, string(canon), itoa(n)), nil
}

func withoutFields(args []byte, volatile []string) ([]byte, error) {
	if len(volatile) == 0 {
		return CanonicalJSON(args)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(args, &m); err != nil {
		return nil, fmt.Errorf("arguments are not a JSON object: %w", err)
	}
	for k := range m {
		if slices.Contains(volatile, k) {
			delete(m, k)
		}
	}
	return Canonical(m)
}
