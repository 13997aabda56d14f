package simulated

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"
	"strconv"
)

// Key tells the trial that a provider serves. It enters draws only.
type Key struct {
	Seed  uint64
	Case  string
	Trial int
	Salt  string // the arm's name, so that arms draw independently
}

// dice draws for one operation.
type dice struct {
	key Key
	op  string
}

// hit draws whether something of this rate happens.
func (d dice) hit(rate Rate, name string) bool {
	if rate <= 0 {
		return false
	}
	return d.below(uint64(always), name) < uint64(rate)
}

// below draws an integer from [0, n), by scaling 64 bits of the digest; its
// bias is below n/2^64.
func (d dice) below(n uint64, name string) uint64 {
	h := sha256.New()
	writeParts(h, "qualify/draw/v1", strconv.FormatUint(d.key.Seed, 10), d.key.Case, strconv.Itoa(d.key.Trial), d.key.Salt, d.op, name)
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(h.Sum(nil)), n)
	return hi
}

// writeParts hashes each part behind its length, so that no two lists collide.
func writeParts(h hash.Hash, parts ...string) {
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
}
