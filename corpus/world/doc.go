// Package world is the simulated world of a case: documents, declarative
// tools, effects and faults, and the scripted owner.
//
// A World is the fold of the case's documents and the effect records applied
// to it; Do computes an outcome against the present fold and changes nothing.
// The same case, seed and calls give the same outcomes, durations and
// documents, byte for byte, on every machine: there is no clock and no random
// source, and every map is walked in order.
//
// # Order inside one call
//
// Unknown tool and bad arguments are answered first, with a text that helps,
// and never have an effect. Then the faults placed on this call strike. Then a
// repeated idempotency key answers with the first record and changes nothing.
// Then the operation runs.
//
// # Owner
//
// Owner folds the room's log and reads claims, messages, documents and time,
// never mode or plan.
//
// Stability: not part of the stable API.
package world
