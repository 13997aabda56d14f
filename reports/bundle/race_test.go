//go:build race

package bundle

// underRace: the race detector makes an exhaustive test ten times as slow.
const underRace = true
