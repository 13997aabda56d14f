package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// OpKind is the kind of an operation (DESIGN §2).
type OpKind string

// Operation kinds.
const (
	OpInterpret  OpKind = "interpret"
	OpRoute      OpKind = "route"
	OpAgent      OpKind = "agent"
	OpSpecialist OpKind = "specialist"
	OpReview     OpKind = "review"
	OpJudge      OpKind = "judge"
	OpUser       OpKind = "user"
	OpTool       OpKind = "tool"
	OpNotify     OpKind = "notify"
)

// OpKey names an operation inside its room by its cause, never at random
// (R10). Cause is the event, task or report the call serves; Attempt counts
// fresh attempts at it; Ordinal counts calls within the attempt.
type OpKey struct {
	Kind    OpKind `json:"kind"`
	Cause   string `json:"cause"`
	Attempt int    `json:"attempt"`
	Ordinal int    `json:"ordinal"`
}

// OperationID is the digest of (room, kind, cause, attempt, ordinal): "op_"
// and 32 hex digits.
func OperationID(room string, k OpKey) string {
	return "op_" + shortDigest("qualify/op/v1", room, string(k.Kind), k.Cause, itoa(k.Attempt), itoa(k.Ordinal))
}

// StableID is prefix plus 32 hex digits of the digest of parts, each
// length-prefixed so that no two lists collide. Use it for notification,
// task and event identities (R10).
func StableID(prefix string, parts ...string) string {
	return prefix + shortDigest(append([]string{"qualify/id/v1"}, parts...)...)
}

func shortDigest(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// BlobDigest names content of a room: hex SHA-256(salt ‖ bytes).
func BlobDigest(salt, content []byte) string { return DigestOf(salt, content) }

// DigestOf is the Digest of the parts, joined.
func DigestOf(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0]))
}

// Digest is the lower-case hex SHA-256 of b.
func Digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
