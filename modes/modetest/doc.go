// Package modetest plays a room for a mode's machine with hand-written
// outcomes: it is the conformance suite of modes.
//
// A Driver seals and loads texts as the runtime does, and holds three machines
// side by side at every event: the one that lives, one restored from the
// snapshot just before, and one that lives in parallel from the start. All
// three must answer with the same commands and the same snapshot. The driver
// also holds what every mode owes: operation keys and message ids are never
// used twice, every text of a request can be loaded, artifact versions have no
// gaps, a claim is withdrawn before anything else.
//
// Random drives a mode through arbitrary histories under the same checks.
package modetest
