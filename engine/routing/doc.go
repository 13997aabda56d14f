// Package routing selects who takes a message: the pure part of C6 and C7. A
// selection grants nothing: it creates no task, run, tool right or effect
// authority.
//
// references.go reads @references from a text, aliases.go names participants,
// resolve.go holds the order explicit reference, router, default, unassigned.
// Everything works on values passed in; eligibility is the caller's, resolved
// just before the commit. Work items with their claims, leases and backoff, and
// handoffs, are separate concerns and get files of their own: they act on a
// Selection and never change how it is made.
//
// Stability: internal to the modes and engine/coordination; may change.
package routing
