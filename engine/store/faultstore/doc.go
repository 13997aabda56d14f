// Package faultstore decorates a store so that chosen calls go wrong: a test
// states a plan, and everything that the plan does not name passes through
// unchanged.
//
// What can happen to a call:
//
//	fail_before  the call is not made; an error comes back
//	fail_after   the call is made and stored; an error comes back all the same
//	lose_reply   as fail_after, but the error is a deadline that has passed
//	stall        the call waits, until Release or until its context ends
//	disk_full    a write is not made; store.ErrFull comes back
//
// A caller that gets an error can therefore not know whether the write took
// place. Only fail_before and disk_full promise that it did not.
//
// Stability: may change between versions.
package faultstore
