package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// Options of an export.
type Options struct {
	// WithholdBodies leaves the contents of texts and the salts of rooms out.
	WithholdBodies bool
	// Ceiling and Funds name the ceiling that the campaign's plan draws on. They
	// matter only while it has drawn nothing: after that its allotments tell.
	Ceiling string
	Funds   store.Funds
}

// Export gives the files of one campaign to add, in byte order of their names.
// Equal records give equal bytes. One room is in memory at a time, and those
// that are not closed, which are read at once because they may move.
//
// The campaign may be running, stopped or cancelled, and other processes may
// write while it is exported: account, ledger, seal log, status and trial
// records are those of one moment, and rooms are not older than the trial
// records. A closed room that a late receipt or a reconciliation changes
// meanwhile is ErrConflict; export again.
//
// Errors: those of the store and of add; store.ErrNotFound without the campaign;
// store.ErrInvalid for a key that cannot stand in the name of a file;
// store.ErrCorrupt where the store holds what no store may, and, if bodies are
// to be withheld, where a room holds a text by value.
func Export(ctx context.Context, st store.Store, campaign string, o Options, add func(name string, content []byte) error) error {
	if a, ok := st.(*Store); ok {
		o = a.options(o)
	}
	r, err := collect(ctx, st, campaign, o)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	x := &exporter{store: st, records: r, withhold: o.WithholdBodies, add: add, open: map[string]packed{}, closed: map[string]closedRoom{}}
	for _, step := range []func(context.Context) error{
		x.openRooms, x.account, x.bodies, x.campaign, x.ledger, x.rooms, x.sealLog, x.traces, x.trials,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("export of campaign %s: %w", campaign, err)
		}
	}
	return nil
}

// options of an export of an archive: what it does not have stays away, and a
// ceiling that nothing was drawn on yet stays.
func (s *Store) options(o Options) Options {
	o.WithholdBodies = o.WithholdBodies || s.withheld
	if o.Ceiling == "" && len(s.ceilings) > 0 {
		o.Ceiling, o.Funds = s.ceilings[0].Name, s.ceilings[0].Funds
	}
	return o
}

type exporter struct {
	store    store.Store
	records  *records
	withhold bool
	add      func(name string, content []byte) error

	open   map[string]packed     // rooms that were not closed, by key
	closed map[string]closedRoom // what bodies has seen, by key
	stored map[string]string     // digests of traces, by key
}

// packed is a room as its two files.
type packed struct{ doc, bodies []byte }

// closedRoom is what stays of a room between its two files.
type closedRoom struct {
	sum    [sha256.Size]byte // of its document
	bodies int
}

func (x *exporter) file(name string, content []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := x.add(name, content); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// load reads a room as it stands.
func (x *exporter) load(ctx context.Context, key string) (*room, error) {
	id := roomID(x.records.campaign.ID, key)
	l, err := x.store.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &room{head: l.Head, rows: l.Rows, ops: l.Ops, effects: l.Effects}
	if l.Snapshot != nil {
		if r.rows, err = x.store.Rows(ctx, id, -1, 0); err != nil {
			return nil, err
		}
	}
	if r.outbox, err = x.store.Outbox(ctx, id); err != nil {
		return nil, err
	}
	// An open room may have got further between these reads.
	r.rows = slices.DeleteFunc(r.rows, func(row store.Row) bool { return row.Rev > r.head.Rev })
	r.outbox = slices.DeleteFunc(r.outbox, func(e store.OutboxEntry) bool { return e.Rev > r.head.Rev })
	if err := r.check(id); err != nil {
		return nil, fmt.Errorf("room %s: %w: %w", id, err, store.ErrCorrupt)
	}
	return r, nil
}

// pack makes both files of a room. known is the number of bodies, if they were
// read before; -1 reads them, unless they are withheld.
func (x *exporter) pack(ctx context.Context, key string, known int) (packed, int, error) {
	r, err := x.load(ctx, key)
	if err != nil {
		return packed{}, 0, err
	}
	var contents map[string][]byte
	if !x.withhold && known < 0 {
		if contents, err = x.contents(ctx, r); err != nil {
			return packed{}, 0, err
		}
		known = len(contents)
	}
	p, err := x.encode(r, contents, known)
	if err != nil {
		return packed{}, 0, fmt.Errorf("room %s: %w: %w", r.head.Room, err, store.ErrCorrupt)
	}
	return p, known, nil
}

// contents are the texts that the room refers to and the store still has.
func (x *exporter) contents(ctx context.Context, r *room) (map[string][]byte, error) {
	named, err := r.named()
	if err != nil {
		return nil, fmt.Errorf("room %s: %w: %w", r.head.Room, err, store.ErrCorrupt)
	}
	return x.store.Blobs(ctx, r.head.Room, named)
}

func (x *exporter) encode(r *room, contents map[string][]byte, bodies int) (p packed, err error) {
	if x.withhold {
		r.head.Salt = nil
		if err := r.checkWithheld(); err != nil {
			return p, err
		}
	} else {
		r.bodies = bodies
		if p.bodies, err = encodeBodies(r.head.Salt, contents); err != nil {
			return p, err
		}
	}
	p.doc, err = r.encode()
	return p, err
}

// keys lists the keys of rooms in byte order of their file names.
func keys(rooms map[string]store.Head, name func(key string) string) []string {
	return slices.SortedFunc(maps.Keys(rooms), byName(name))
}

func (x *exporter) openRooms(ctx context.Context) error {
	for _, key := range keys(x.records.rooms, roomName) {
		if head := x.records.rooms[key]; head.Closed {
			continue
		}
		p, _, err := x.pack(ctx, key, -1)
		if err != nil {
			return err
		}
		x.open[key] = p
	}
	return nil
}

func (x *exporter) account(context.Context) error {
	var d accountDoc
	for i := range x.records.ceilings {
		d.Ceilings = append(d.Ceilings, ceilingDocOf(&x.records.ceilings[i]))
	}
	for i := range x.records.allotments {
		d.Allotments = append(d.Allotments, allotmentDocOf(&x.records.allotments[i]))
	}
	d.Older, d.Newer = otherDocs(x.records.older), otherDocs(x.records.newer)
	b, err := appendDoc(nil, &d)
	return x.file(accountFile, b, err)
}

func otherDocs(cs []store.Campaign) []otherDoc {
	var out []otherDoc
	for i := range cs {
		c := &cs[i]
		out = append(out, otherDoc{ID: c.ID, Name: c.Name, PlanDigest: c.PlanDigest, Status: c.Status})
	}
	return out
}

func (x *exporter) bodies(ctx context.Context) error {
	if x.withhold {
		return nil
	}
	for _, key := range keys(x.records.rooms, bodiesName) {
		p, open := x.open[key]
		if !open {
			var n int
			var err error
			if p, n, err = x.pack(ctx, key, -1); err != nil {
				return err
			}
			x.closed[key] = closedRoom{sum: sha256.Sum256(p.doc), bodies: n}
		}
		if err := x.file(bodiesName(key), p.bodies, nil); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) campaign(context.Context) error {
	c := &x.records.campaign
	plan, err := rawJSON("the plan", c.Plan)
	if err == nil && plan == nil {
		err = errors.New("the plan is empty")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", campaignFile, err, store.ErrCorrupt)
	}
	b, err := appendDoc(nil, &campaignDoc{
		Schema: schema, ID: c.ID, Name: c.Name, PlanDigest: c.PlanDigest, Registration: c.Registration, Plan: plan, Status: c.Status,
		BodiesWithheld: x.withhold, LedgerRows: len(x.records.ledger), SealRows: len(x.records.seals), Trials: len(x.records.trials),
		Rooms: len(x.records.rooms),
	})
	return x.file(campaignFile, b, err)
}

func (x *exporter) ledger(context.Context) error {
	docs := make([]ledgerDoc, 0, len(x.records.ledger))
	for i := range x.records.ledger {
		docs = append(docs, ledgerDocOf(&x.records.ledger[i]))
	}
	b, err := appendLines(nil, docs)
	return x.file(ledgerFile, b, err)
}

func (x *exporter) rooms(ctx context.Context) error {
	for _, key := range keys(x.records.rooms, roomName) {
		p, open := x.open[key]
		if !open {
			was, seen := x.closed[key] // not where bodies are withheld
			var err error
			if p, _, err = x.pack(ctx, key, was.bodies); err != nil {
				return err
			}
			if seen && sha256.Sum256(p.doc) != was.sum {
				return fmt.Errorf("room %s changed while it was exported; export again when nobody settles its calls: %w",
					roomID(x.records.campaign.ID, key), store.ErrConflict)
			}
		}
		if err := x.file(roomName(key), p.doc, nil); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) sealLog(context.Context) error {
	docs := make([]sealDoc, 0, len(x.records.seals))
	for i := range x.records.seals {
		d, err := sealDocOf(&x.records.seals[i])
		if err != nil {
			return err
		}
		docs = append(docs, d)
	}
	b, err := appendLines(nil, docs)
	return x.file(sealFile, b, err)
}

func (x *exporter) traces(ctx context.Context) error {
	x.stored = map[string]string{}
	var all []string
	for i := range x.records.trials {
		all = append(all, x.records.trials[i].Key)
	}
	slices.SortFunc(all, byName(traceName))
	for _, key := range all {
		digest, content, err := x.store.Trace(ctx, x.records.campaign.ID, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil && digest == "" {
			err = fmt.Errorf("trace of %s: stored without a digest: %w", key, store.ErrCorrupt)
		}
		if err != nil {
			return err
		}
		x.stored[key] = digest
		if err := x.file(traceName(key), content, nil); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) trials(context.Context) error {
	docs := make([]trialDoc, 0, len(x.records.trials))
	for i := range x.records.trials {
		t := &x.records.trials[i]
		docs = append(docs, trialDocOf(t, x.stored[t.Key]))
	}
	b, err := appendLines(nil, docs)
	return x.file(trialsFile, b, err)
}
