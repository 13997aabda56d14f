//go:build race

package attest

// underRace: the race detector makes signatures ten times as slow.
const underRace = true
