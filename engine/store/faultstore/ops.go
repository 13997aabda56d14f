package faultstore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// Op is a method of store.Store, by its name.
type Op string

// Any of these in a Fault stands for every method of its class; the calls of
// the whole class are then counted together.
const (
	AnyRead  Op = "any read"
	AnyWrite Op = "any write"
)

// Class says whether a call can change what is stored.
type Class string

// Classes. Close changes nothing that is stored and never goes wrong here.
const (
	Read  Class = "read"
	Write Class = "write"
	Final Class = "final"
)

// classes is the taxonomy; New refuses to work when it does not name exactly
// the methods of store.Store, so that a new method cannot slip past the plans.
var classes = map[Op]Class{
	"CreateRoom": Write, "Load": Read, "LoadTail": Read, "LoadOps": Read, "Rows": Read, "Commit": Write, "MarkDispatched": Write,
	"PutReceipt": Write, "PutEffect": Write,
	"Reconcile": Write, "GrantRoom": Write, "PutSnapshot": Write, "CloseRoom": Write, "Blobs": Read, "Outbox": Read, "Delivered": Write,
	"Lookup": Read, "ListRooms": Read,

	"EnsureCeiling": Write, "Grant": Write, "Ceilings": Read, "Allot": Write, "Release": Write, "Allotments": Read, "OpenAllotments": Read,
	"CampaignWeight": Read, "Enqueue": Write, "Dequeue": Write, "Queue": Read,
	"Ledger": Read, "PutCampaign": Write, "SetCampaignStatus": Write, "Campaign": Read, "Campaigns": Read, "PutTrial": Write, "Trials": Read,
	"PutTrace": Write, "Trace": Read, "AcquireLease": Write, "RenewLease": Write, "ReleaseLease": Write, "KeepLease": Write,
	"BreakLease": Write, "Leases": Read, "AppendSeal": Write, "AppendSealAfter": Write, "SealLog": Read,

	"Stats": Read, "Close": Final,
}

// Ops lists the methods of a class, sorted.
func Ops(c Class) []Op {
	var out []Op
	for _, op := range slices.Sorted(maps.Keys(classes)) {
		if classes[op] == c {
			out = append(out, op)
		}
	}
	return out
}

// ClassOf is the class of a method or of AnyRead and AnyWrite; false for what
// the store does not have.
func ClassOf(op Op) (Class, bool) {
	switch op {
	case AnyRead:
		return Read, true
	case AnyWrite:
		return Write, true
	}
	c, ok := classes[op]
	return c, ok
}

// checkTaxonomy compares a taxonomy with the methods of a port.
func checkTaxonomy(table map[Op]Class, port reflect.Type) error {
	for i := range port.NumMethod() {
		if name := port.Method(i).Name; table[Op(name)] == "" {
			return fmt.Errorf("faultstore: method %s of the store is in no class", name)
		}
	}
	if port.NumMethod() != len(table) {
		return fmt.Errorf("faultstore: %d methods are in a class, the store has %d", len(table), port.NumMethod())
	}
	return nil
}

func storeType() reflect.Type { return reflect.TypeFor[store.Store]() }
