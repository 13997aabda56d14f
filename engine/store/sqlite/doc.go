// Package sqlite is the durable store of one machine: both ports of
// engine/store in one SQLite file, shared by any number of processes.
//
//	callers ──logical writes──▶ queue ──▶ writer goroutine ──one transaction per batch──▶ file (WAL)
//	callers ──reads───────────────────▶ pool of query-only connections ────────────────▶ file
//
// Group commit. One goroutine owns the writing connection. It takes what is
// waiting, opens one immediate transaction, and runs each logical write: every
// check reads first, and only a write that passes all checks changes anything,
// so a refused one leaves nothing to undo. A driver fault (a constraint, a
// full disk) rolls the whole batch back, and each of its writes is then tried
// in a transaction of its own, so that it can fail only itself. A caller's
// context ends its wait and never a statement; a write that is still queued
// then is withdrawn.
//
// Durability follows money. A batch that touches real funds or the seal log,
// and every batch under Options.Durable, is flushed to the disk before it is
// answered. Other batches survive the death of the process, not of the
// machine.
//
// Several processes. Between batches the writer pauses for a moment while
// another connection is seen committing, so that no process starves.
//
// Stability: may change between versions; the file is migrated.
package sqlite
