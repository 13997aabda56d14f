// Package runtime runs one room durably: it is the only package that acts, and
// it commits before it acts.
//
//	            ┌────────────────────────── room goroutine ───────────────────────────┐
//	results ──▶ │ choose next ─▶ Machine.Handle ─▶ store.Commit ─▶ dispatch mark ─▶ call │ ──▶ results
//	owner,      │ event          (pure)            event, receipts,                      │
//	timers      │                                  new operations, outbox                │
//	            └─────────────────────────────────────────────────────────────────────┘
//
// # Order of events
//
// Under virtual time nothing is delivered until every operation in flight in
// the room has returned with its virtual duration. Then the earliest event is
// delivered; at equal times a timer goes before an owner message, and both
// before the result of an operation; equals among these go by id. An event
// that is due earlier than the newest row is stamped with the row's time, so
// time never goes backwards (R72). Under wall time the same order holds among
// the events that are due.
//
// # What is durable when
//
// Receipts of all operations that have returned ride with the room's next
// commit, and are stored before any later call of the room starts. A row's
// event states the room's money with every returned call settled.
//
// # Recovery
//
// A restart rebuilds machine, world and owner by folding rows again, those behind
// the newest snapshot (see below) or all; after row r it replays the tool operations that r created, in commit order: their
// effect records (World.Apply), then World.Called where the call took place.
// That is the order in which they happened: tools of a room run one after
// another, between the commit that created them and the next one. Every
// commands digest and state digest is compared on the way. Then the open
// operations go on in commit order:
//
//	reserved, no dispatch mark     dispatched as planned
//	receipt, no event yet          its event is delivered
//	tool, effect record, no receipt  World.Recover tells the outcome
//	tool, no effect record         nothing happened: World.Do again
//	model, class lookup            Finder.Lookup: what the caller saw, or the same call
//	model, class opaque            unknown outcome, hold kept, never called again (R45)
//
// So for lookup parties a process may die at any instant without changing a
// row, a call or an amount.
//
// # Snapshots
//
// When no operation is open and the rows since the last snapshot are at least as
// large as that snapshot, and as Config.SnapshotBytes, a new one takes its place:
// the machine's state, whose digest is the row's state digest, and the folds of
// runtime, world and owner (engine.Snapshotter). So snapshots but
// for the newest cost no more writing than the rows, and what a restart reads and
// folds follows the state and the tail, not the history. From a snapshot on, a run remembers of its
// room what a restart would.
//
// The rows stay the truth. A snapshot whose digests are wrong, or that machine,
// world or owner do not take back, is not used: all rows are folded instead, and
// Result.SnapshotUnused says why. Replay never starts from one, and compares it
// with what the rows fold to.
//
// # Versions
//
// A row states the version of the machine that folded it. A machine of another
// version takes a room over only at a snapshot of the newest row, and only with
// an upgrade (engine.Upgrader); code VERSION_MISMATCH otherwise, with nothing
// changed. Its rows follow the old ones in the same chain; the upgrade itself
// leaves no row, and is repeated by every restart until the next snapshot.
//
// # Close
//
// When no operation, timer or owner message is pending, operations of unknown
// outcome are reconciled where the party can be asked, outside the chain; the
// snapshot is stored and the room closed with a termination word.
//
// # Rooms that stay open
//
// Run drives a trial's room from its start to its close. A room that an
// embedding program keeps is never closed. Append folds one event from outside
// and commits it, in any process, at any time. Tick works the room to rest
// under its lease: it alone dispatches, delivers and recovers. Every write of a
// Tick is fenced; a call ends early for lost authority only; a room at rest has
// no row that nobody has served. See Live.
//
// Stability: part of the stable API.
package runtime
