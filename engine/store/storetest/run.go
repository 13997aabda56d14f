// Package storetest is the conformance suite of the store ports: every
// implementation of engine/store runs it, and a fault found in one store adds
// a case here. Differ compares two stores on random histories.
//
// Stability: may change between versions.
package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/engine/store"
)

// Options of a run.
type Options struct {
	// Reopen closes s and opens the same data again. Nil for stores that end
	// with the process.
	Reopen func(t *testing.T, s store.Store) store.Store
}

type testCase struct {
	name string
	run  func(t *testing.T, s store.Store)
}

// Run runs the whole suite. open returns a fresh, empty store and closes it
// when its test ends.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts Options) {
	t.Helper()
	for _, list := range [][]testCase{roomCases, moneyCases, receiptCases, concurrentCases, ceilingCases, queueCases, recordCases, fenceCases, closeCases} {
		for _, c := range list {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, open(t))
			})
		}
	}
	if opts.Reopen == nil {
		return
	}
	for _, c := range reopenCases(opts.Reopen) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

// equal fails the test unless got equals want; nil and empty lists are equal.
func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// wants fails the test unless err is target (nil: no error).
func wants(t *testing.T, what string, target, err error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: want error %v, got %v", what, target, err)
	}
}

func must[T any](t *testing.T, what string) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}
