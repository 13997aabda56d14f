//go:build !race

package attest

const underRace = false
