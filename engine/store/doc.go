// Package store declares the two ports behind which everything durable lives:
// Rooms (event-sourced rooms, operations, receipts, effects, blobs, outbox)
// and Records (ceilings, allotments, queues, ledger, campaigns, trials, leases, seal
// log). Implementations are in store/memory and store/sqlite; all of them run
// the conformance suite store/storetest.
//
// Stability: this package is part of the stable API.
package store
