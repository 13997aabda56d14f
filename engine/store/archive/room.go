package archive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// room is one room as its file holds it.
type room struct {
	head    store.Head
	rows    []store.Row    // all, ascending
	ops     []store.Op     // by (Rev, Ordinal)
	effects []store.Effect // by Seq
	outbox  []store.OutboxEntry
	bodies  int
}

// encode is the content of the room's file.
func (r *room) encode() ([]byte, error) {
	d := roomDoc{Bodies: r.bodies, Head: headDocOf(&r.head), Effects: r.effects}
	for i := range r.rows {
		row, err := rowDocOf(&r.rows[i])
		if err != nil {
			return nil, fmt.Errorf("revision %d: %w", r.rows[i].Rev, err)
		}
		d.Rows = append(d.Rows, row)
	}
	for i := range r.ops {
		op, err := opDocOf(&r.ops[i])
		if err != nil {
			return nil, fmt.Errorf("operation %s: %w", r.ops[i].ID, err)
		}
		d.Ops = append(d.Ops, op)
	}
	for i := range r.outbox {
		e, err := outboxDocOf(&r.outbox[i])
		if err != nil {
			return nil, fmt.Errorf("outbox entry %s: %w", r.outbox[i].ID, err)
		}
		d.Outbox = append(d.Outbox, e)
	}
	return appendDoc(nil, &d)
}

// decodeRoom reads and checks the file of a room.
func decodeRoom(name, id string, data []byte, withheld bool) (*room, error) {
	var d roomDoc
	if err := decodeDoc(name, data, &d); err != nil {
		return nil, err
	}
	r := &room{head: d.Head.head(), effects: d.Effects, bodies: d.Bodies}
	for i := range d.Rows {
		r.rows = append(r.rows, d.Rows[i].row())
	}
	for i := range d.Ops {
		r.ops = append(r.ops, d.Ops[i].op())
	}
	for i := range d.Outbox {
		r.outbox = append(r.outbox, d.Outbox[i].entry())
	}
	for i := range r.effects {
		r.effects[i].Seq = int64(i) + 1
	}
	err := r.check(id)
	if err == nil && withheld {
		err = r.checkWithheld()
	}
	if err != nil {
		return nil, damaged(name, "%v", err)
	}
	return r, nil
}

// check judges what every room of every store fulfils: the chain of rows up to
// the head, and places and order of all that hangs on them.
func (r *room) check(id string) error {
	h := &r.head
	switch {
	case h.Room != id:
		return fmt.Errorf("is of room %q, not %q", h.Room, id)
	case !h.Funds.Valid():
		return fmt.Errorf("funds %q are unknown", h.Funds)
	case r.bodies < 0:
		return fmt.Errorf("%d bodies", r.bodies)
	}
	if err := r.checkChain(); err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range r.ops {
		o := &r.ops[i]
		switch {
		case known[o.ID]:
			return fmt.Errorf("operation %s twice", o.ID)
		case o.Rev < 0 || o.Rev > h.Rev || o.Ordinal < 0:
			return fmt.Errorf("operation %s stands at revision %d, place %d", o.ID, o.Rev, o.Ordinal)
		case i > 0 && cmp.Or(cmp.Compare(r.ops[i-1].Rev, o.Rev), cmp.Compare(r.ops[i-1].Ordinal, o.Ordinal)) >= 0:
			return fmt.Errorf("operation %s is out of order", o.ID)
		}
		known[o.ID] = true
	}
	type place struct {
		op string
		n  int
	}
	had := map[place]bool{}
	for i := range r.effects {
		e := &r.effects[i]
		p := place{e.Op, e.N}
		if e.Room != id || !known[e.Op] || had[p] || e.Seq != int64(i)+1 {
			return fmt.Errorf("effect %d of room %s, operation %s, record %d does not belong there", i+1, e.Room, e.Op, e.N)
		}
		had[p] = true
	}
	for i := range r.outbox {
		if e := &r.outbox[i]; e.Rev < 0 || e.Rev > h.Rev || i > 0 && r.outbox[i-1].Rev > e.Rev {
			return fmt.Errorf("outbox entry %s stands at revision %d", e.ID, e.Rev)
		}
	}
	return nil
}

func (r *room) checkChain() error {
	prev, state := "", ""
	for i := range r.rows {
		row := &r.rows[i]
		switch {
		case row.Rev != int64(i):
			return fmt.Errorf("revision %d stands where %d should", row.Rev, i)
		case row.Prev != prev:
			return fmt.Errorf("revision %d does not follow the row before it", row.Rev)
		case engine.Digest(row.Commands) != row.CommandsDigest:
			return fmt.Errorf("revision %d: the commands do not match their digest", row.Rev)
		case store.RowDigest(*row) != row.Digest:
			return fmt.Errorf("revision %d: the row does not match its digest", row.Rev)
		}
		prev, state = row.Digest, row.StateDigest
	}
	h := &r.head
	if h.Rev != int64(len(r.rows))-1 || h.Digest != prev || len(r.rows) > 0 && h.StateDigest != state {
		return fmt.Errorf("the head is at revision %d %s, the newest row is %d %s", h.Rev, h.Digest, len(r.rows)-1, prev)
	}
	return nil
}

// checkWithheld refuses a room that gives away what is withheld.
func (r *room) checkWithheld() error {
	switch {
	case len(r.head.Salt) > 0:
		return fmt.Errorf("the salt is there, although bodies are withheld")
	case r.bodies != 0:
		return fmt.Errorf("has bodies, although they are withheld")
	}
	for i := range r.effects {
		e := &r.effects[i]
		for _, t := range []*engine.Text{&e.Args, &e.Patch, &e.Result} {
			if !t.Sealed() && t.S != "" {
				return fmt.Errorf("effect %d holds a text by value, which cannot be withheld", i+1)
			}
		}
	}
	return r.walk(func(where string, object map[string]any) error {
		if s, ok := object["text"].(string); ok && s != "" {
			return fmt.Errorf("%s holds a text by value, which cannot be withheld", where)
		}
		return nil
	})
}

// named lists the digests of all contents that the room refers to, sorted.
func (r *room) named() ([]string, error) {
	set := map[string]bool{}
	for i := range r.effects {
		e := &r.effects[i]
		for _, t := range []*engine.Text{&e.Args, &e.Patch, &e.Result} {
			if t.Sealed() {
				set[t.Blob.Digest] = true
			}
		}
	}
	err := r.walk(func(_ string, object map[string]any) error {
		digest, ok := object["digest"].(string)
		if _, sealed := object["len"]; ok && sealed && digest != "" {
			set[digest] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(set)), err
}

// walk visits every JSON object in rows, operations and outbox.
func (r *room) walk(visit func(where string, object map[string]any) error) error {
	in := func(where string, doc []byte) error {
		if len(doc) == 0 {
			return nil
		}
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		return objects(v, func(o map[string]any) error { return visit(where, o) })
	}
	for i := range r.rows {
		where := fmt.Sprint("revision ", r.rows[i].Rev)
		if err := in(where, r.rows[i].Event); err != nil {
			return err
		}
		if err := in(where, r.rows[i].Commands); err != nil {
			return err
		}
	}
	for i := range r.ops {
		o := &r.ops[i]
		if err := in("the request of operation "+o.ID, o.Request); err != nil {
			return err
		}
		if o.Receipt == nil {
			continue
		}
		if err := in("the receipt of operation "+o.ID, o.Receipt.Result); err != nil {
			return err
		}
	}
	for i := range r.outbox {
		if err := in("outbox entry "+r.outbox[i].ID, r.outbox[i].Body); err != nil {
			return err
		}
	}
	return nil
}

func objects(v any, visit func(map[string]any) error) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := objects(e, visit); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := visit(v); err != nil {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := objects(v[k], visit); err != nil {
				return err
			}
		}
	}
	return nil
}
