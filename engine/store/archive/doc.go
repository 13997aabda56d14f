// Package archive holds the records of one campaign as files, and a read-only
// store over such files. Export writes them from any store; Open reads them
// back, and what a store.Store over them answers about the campaign is what the
// store they came from answered.
//
// The files, in the order in which Export gives them:
//
//	account.json      ceilings the campaign drew on, the allotments on them, the other campaigns that drew on them
//	bodies/KEY.jsonl  contents that the room of a trial refers to, by digest; a line {digest, text} or {base64, digest}
//	campaign.json     id, name, digests, plan and status of the campaign, and how many lines the other files have
//	ledger.jsonl      ledger rows of these ceilings, under the numbers they have in the store
//	rooms/KEY.json    head, rows, operations with receipts, effects and undelivered messages of a room
//	seal-log.jsonl    the seal log, as freeze.Export writes it
//	traces/KEY.jsonl  exported traces, the bytes that are stored
//	trials.jsonl      the trial records, in schedule order
//
// KEY is the key of a trial (case/arm/index); its room is the campaign's id, a
// slash and the key. Every file but a trace is canonical JSON, one value and a
// line end, or lines of these, and is refused when one byte of its spelling
// differs. Rows must chain up to the head, contents must have their digests.
// Whether the seal log chains, and whether sums follow from what they are made
// of, is for those to judge who judge it in any store.
//
// Not there: snapshots (rows stand for them), totals, leases, queues, the index
// of a room, delivered messages, and contents that nothing in the room names,
// which the prompts of settled calls are.
//
// # Withheld bodies
//
// With Options.WithholdBodies the folder bodies and the salts stay out: texts
// are then known by digest and length alone, the chain of rows verifies, and a
// room cannot be rebuilt. Export refuses a room that holds a text by value.
// What is no text stays: names of participants, tasks, tools and their targets,
// the ids of messages, one-line errors of providers, reasons of refusals and
// proofs. Digests of effects and idempotency keys are not salted, and a salt
// that a plan's seed determines can be computed by whoever has the plan; so a
// text that is short enough to be guessed can be confirmed. Traces are given as
// they are stored, with every text that they hold.
//
// Stability: may change between versions.
package archive
