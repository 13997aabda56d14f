// Package lint is the oracle audit of a corpus: it walks the gold solution of
// every case through the simulated world and looks for cases that cannot be
// solved, that are solved by doing nothing, or that judge something nobody can
// make. It spoils the solution, one action at a time, to see that the oracle
// misses every one of them, and compares all cases for near-duplicates
// (qualification Q6).
//
// Stability: not part of the stable API.
package lint
