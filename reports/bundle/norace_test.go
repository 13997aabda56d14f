//go:build !race

package bundle

const underRace = false
