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
// A restart rebuilds machine, world and owner by folding all rows again; after
// row r it replays the tool operations that r created, in commit order: their
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
// # Close
//
// When no operation, timer or owner message is pending, operations of unknown
// outcome are reconciled where the party can be asked, outside the chain; the
// snapshot is stored and the room closed with a termination word.
//
// Stability: part of the stable API.
package runtime
