package campaigns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// CheckWithheld holds a room whose contents are withheld, and whose states can
// therefore not be rebuilt, against the trace of its trial: operations, effects,
// events and close must be those of the trace, record by record, but for the
// texts; and each receipt must be what its event says. The error names the first
// that differs. What only a digest of a withheld text tells is not judged.
func (p *Plan) CheckWithheld(ctx context.Context, rooms store.Rooms, s Seat, content []byte) error {
	said, err := trace.Read(bytes.NewReader(content))
	if err != nil {
		return err
	}
	log, err := runtime.ReadWithheld(ctx, rooms, p.Room(s))
	if err != nil {
		return err
	}
	for i := range log.Effects {
		log.Effects[i].Args.S = "null"
	}
	w := trace.NewWriter(io.Discard) // the kept records are compared, and not their bytes
	w.Keep()
	if err := w.Header(p.Header(s, log.Head.Machine)); err != nil {
		return err
	}
	if err := newExporter(w, log, s.Case.FaultKindsByID()).records(); err != nil {
		return fmt.Errorf("room %s: %w", p.Room(s), err)
	}
	end := said.End // which is full of texts: its figures are compared with the room's head
	if _, err := w.End(end); err != nil {
		return err
	}
	return sameButTexts(said, w.Trace(), &log.Head)
}

func equalJSON(a, b any) (bool, error) {
	x, err := engine.Canonical(a)
	if err != nil {
		return false, err
	}
	y, err := engine.Canonical(b)
	return bytes.Equal(x, y), err
}

// sameButTexts compares the records of a trace with those that a room without
// texts gives.
func sameButTexts(said, got *trace.Trace, head *store.Head) error {
	end := &said.End
	m := trace.Money{Charged: head.Money.Charged, Held: head.Money.Held, Unknown: head.Money.Unknown}
	switch {
	case said.Header != got.Header:
		return fmt.Errorf("the header of the trace is not that of the room, whose machine is %s", head.Machine)
	case end.AtUS != head.ClosedAtUS || end.Termination != head.Termination || end.Money != m || end.RoomDigest != head.Digest:
		return fmt.Errorf("the trace ends at %d us as %s, the room at %d us as %s, or with other money", end.AtUS, end.Termination, head.ClosedAtUS, head.Termination)
	}
	for _, compare := range []func() error{
		func() error { return eachSame("operation", said.Ops, got.Ops, bareOp) },
		func() error { return eachSame("effect", said.Effects, got.Effects, bareEffect) },
		func() error { return eachSame("event", said.Events, got.Events, bareEvent) },
		func() error { return eachSame("message of the owner", said.Owners, got.Owners, bareOwner) },
	} {
		if err := compare(); err != nil {
			return err
		}
	}
	return nil
}

func eachSame[T any](what string, said, got []T, bare func(T) T) error {
	if len(said) != len(got) {
		return fmt.Errorf("the trace has %d of %s, the room %d", len(said), what, len(got))
	}
	for i := range said {
		if same, err := equalJSON(bare(said[i]), bare(got[i])); err != nil || !same {
			return fmt.Errorf("%s %d of the trace is not that of the room", what, i+1)
		}
	}
	return nil
}

func bareOp(o trace.Op) trace.Op {
	o.Prev, o.Digest = "", ""
	return o
}

func bareEffect(e trace.Effect) trace.Effect {
	e.Args, e.Prev, e.Digest = json.RawMessage("null"), "", ""
	return e
}

func bareEvent(e trace.Event) trace.Event {
	e.Body, e.Prev, e.Digest = json.RawMessage("null"), "", ""
	return e
}

func bareOwner(o trace.Owner) trace.Owner {
	o.Text, o.Prev, o.Digest = "", "", ""
	return o
}
