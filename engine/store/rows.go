package store

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// RowDigest is the chain digest of a row: SHA-256 over every field but Digest,
// each length-prefixed.
func RowDigest(r Row) string {
	head := fmt.Appendf(nil, "qualify/row/v1\n%d\n%d:%s\n%d:", r.Rev, len(r.Machine), r.Machine, len(r.Event))
	middle := fmt.Appendf(nil, "\n%d:", len(r.Commands))
	tail := fmt.Appendf(nil, "\n%s\n%s\n%s", r.CommandsDigest, r.StateDigest, r.Prev)
	return engine.DigestOf(head, r.Event, middle, r.Commands, tail)
}
