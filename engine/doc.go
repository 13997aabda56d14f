// Package engine is the pure core of qualify: events, commands, the Machine
// port, operation identities, canonical JSON, digests, effect identity and the
// conventions spoken between prompts and models.
//
// Nothing here performs I/O, reads a clock, draws a random number or starts a
// goroutine. A Machine folds one Event and returns Commands; only
// engine/runtime turns commands into calls, and it commits first.
//
// Stability: this package is part of the stable API.
package engine
