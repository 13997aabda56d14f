//go:build race

package main

// underRace: the race detector makes processes several times slower.
const underRace = true
