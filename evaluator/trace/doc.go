// Package trace holds the trace format qualify/trace/v1: records, a chained
// writer, a strict reader, verification, and importers of foreign formats.
//
// A trace is JSON Lines: header, events, operations, effects, owner messages,
// and an end record that holds everything the evaluator needs. Each record
// carries the digest of the one before it; hashed records hold no path, host,
// pid, build or wall date (DESIGN §6).
//
// Stability: this package is part of the stable API.
package trace
