package store

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// RowDigest is the chain digest of a row: SHA-256 over every field but Digest,
// each length-prefixed.
func RowDigest(r Row) string {
	b := fmt.Appendf(nil, "qualify/row/v1\n%d\n%d:%s\n%d:", r.Rev, len(r.Machine), r.Machine, len(r.Event))
	b = append(b, r.Event...)
	b = fmt.Appendf(b, "\n%d:", len(r.Commands))
	b = append(b, r.Commands...)
	b = fmt.Appendf(b, "\n%s\n%s\n%s", r.CommandsDigest, r.StateDigest, r.Prev)
	return engine.Digest(b)
}
