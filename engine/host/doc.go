// Package host is the Room planner as a service that another program embeds.
// The program supplies what only it can know or do, as ports; the service
// keeps rooms that stay open, on any store of this module.
//
//	your program                      host.Service                    store
//	  persisted message id ──AcceptEvent──▶ Events port ──▶ row ──────▶ ┐
//	  owner's order ──Pause, Grant, …─────▶ Authority port ──▶ row ───▶ │ one compare-and-set each
//	  timer, queue, cron ──Tick───────────▶ lease ──▶ dispatch mark ──▶ ┘
//	                                          │ Reasoner · Executor · Verifier · Notifier
//	                                          ▼ receipt ──▶ row ──▶ … until the room is at rest
//
// What a caller says is never evidence: a message is named by its id, and
// author and text are read from the Events port (R13). The reasoner proposes;
// only the engine commits (R3). Before any port that costs money is called,
// the operation, its reservation and a dispatch mark are durable, and no
// operation is ever handed to a port twice unless proof says that it did not
// happen (R36, R45, R47). A service can be dropped at any instant and made
// anew over the same store, in any process: nothing is lost and no finished
// call repeated (R49).
//
// # Events come in, ticks work
//
// AcceptEvent, RecordSpecialistProposal and the owner's commands append one
// row and return; they call no paid port. Tick acts: it delivers the outbox,
// makes the calls that are reserved, and works until the room is at rest. Call
// it after anything was accepted, at start-up for every room with open work,
// and from time to time. One process at a time ticks a room, by a lease; for
// any other a Tick returns at once and says who has it.
//
// # Ports
//
// The ports of seed 000 and where they are: the reasoner is Reasoner; the
// specialists' execution is Executor; verification is Verifier; delivery is
// Notifier; current identity and admission is Authority, asked at each use; the
// persistent event resolver is Events; reconciliation is Reconciler. Authorized
// context is what the engine shows a reasoner: messages that were accepted and
// participants who may act now. Routing needs no port: a message that names
// participants by id or alias of the definition reaches those of them that
// Authority lists, without a reasoner (R15); all else is read by the reasoner.
// Integer reservations are the Bound of each port; FromModel makes them from
// token prices.
//
// # Tenants
//
// A room belongs to a tenant, and the tenant is part of its identity in the
// store: the same name under two tenants is two rooms, and a room asked for
// under another tenant is NOT_FOUND.
//
// # Money
//
// All amounts are whole USD micros of real funds. A room has one budget, set
// when it is opened and changed by GrantBudget alone. A port must state a true
// upper bound of every call; a bound that does not fit is refused before
// anything is called. What a call cost is charged; a cost that is missing is
// charged at the bound, never as zero (R38); an outcome that nobody knows
// keeps the whole bound on hold until proof comes (R42).
//
// # Errors
//
// Every error that the service itself decides carries a code of R70
// (engine.CodeOf). A proposal that is refused is no error of Tick but a
// recorded outcome, told to the reasoner or to the owner.
//
// # Setting up
//
// New makes no tables. The planner's rooms and the calls have schema ledgers
// of their own, applied with sqlite.Migrate; see package engine/store/sqlite.
//
// Stability: part of the stable API.
package host
