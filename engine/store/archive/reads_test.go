package archive_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
)

// reader compares what an archive answers with what the store it came from does.
type reader struct {
	t        fatal
	ctx      context.Context //nolint:containedctx // one reader is one comparison
	st       store.Store
	a        *archive.Store
	withheld bool
}

// same compares one read; fix makes of the store's answer what an archive has
// of it.
func same[T any](r *reader, what string, read func(store.Store) (T, error), fix func(T) T) T {
	r.t.Helper()
	want, errWant := read(r.st)
	got, errGot := read(r.a)
	if word(errWant) != word(errGot) {
		r.t.Fatalf("%s: the store says %v, the archive %v", what, errWant, errGot)
	}
	if errWant == nil && fix != nil {
		want = fix(want)
	}
	if reflect.DeepEqual(want, got) { // far quicker, and mostly so
		return got
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		r.t.Fatalf("%s (-store +archive):\n%s", what, diff)
	}
	return got
}

// compare reads everything that can be read of the campaigns.
func (r *reader) compare(id string, others ...string) {
	r.t.Helper()
	own := must(r.st.Allotments(r.ctx, id))(r.t, "allotments")
	drawn := func(name string, funds store.Funds) bool {
		return slices.ContainsFunc(own, func(a store.Allotment) bool { return a.Ceiling == name && a.Funds == funds })
	}
	ceilings := same(r, "ceilings", func(s store.Store) ([]store.Ceiling, error) { return s.Ceilings(r.ctx) }, func(cs []store.Ceiling) []store.Ceiling {
		return slices.DeleteFunc(cs, func(c store.Ceiling) bool { return !drawn(c.Name, c.Funds) })
	})
	type open struct {
		Ceiling store.Ceiling
		Open    []store.Allotment
	}
	for _, c := range append(ceilings, store.Ceiling{Name: "nowhere", Funds: sim}) {
		same(r, "open allotments of "+c.Name, func(s store.Store) (open, error) {
			c, as, err := s.OpenAllotments(r.ctx, c.Name, c.Funds)
			return open{c, as}, err
		}, nil)
	}
	ledger := same(r, "ledger", func(s store.Store) ([]store.LedgerRow, error) { return s.Ledger(r.ctx, 0, 0) }, func(rows []store.LedgerRow) []store.LedgerRow {
		return slices.DeleteFunc(rows, func(l store.LedgerRow) bool { return !drawn(l.Ceiling, l.Funds) })
	})
	for i := range ledger {
		page := must(r.a.Ledger(r.ctx, ledger[i].N, 2))(r.t, "page of the ledger")
		if diff := cmp.Diff(ledger[i+1:min(i+3, len(ledger))], page, cmpopts.EquateEmpty()); diff != "" {
			r.t.Fatalf("ledger after %d (-want +got):\n%s", ledger[i].N, diff)
		}
	}
	var drew []string
	for _, c := range append([]string{id, "nobody"}, others...) {
		as := same(r, "allotments of "+c, func(s store.Store) ([]store.Allotment, error) { return s.Allotments(r.ctx, c) }, func(as []store.Allotment) []store.Allotment {
			return slices.DeleteFunc(as, func(a store.Allotment) bool { return !drawn(a.Ceiling, a.Funds) })
		})
		if len(as) > 0 || c == id {
			drew = append(drew, c)
		}
		for _, f := range []store.Funds{sim, store.FundsReal} {
			same(r, "weight of "+c, func(s store.Store) (int64, error) { return s.CampaignWeight(r.ctx, c, f) }, func(int64) (sum int64) {
				for i := range as {
					if as[i].Funds == f {
						sum += as[i].Weight()
					}
				}
				return sum
			})
		}
	}
	known := func(c store.Campaign) store.Campaign {
		c.Totals, c.CreatedSeq = nil, 0
		if c.ID != id {
			c.Plan, c.Registration = nil, ""
		}
		return c
	}
	unnumbered := func(cs []store.Campaign) []store.Campaign {
		for i := range cs {
			if cs[i].CreatedSeq <= 0 || i > 0 && cs[i].CreatedSeq <= cs[i-1].CreatedSeq {
				r.t.Fatalf("campaign %s has number %d", cs[i].ID, cs[i].CreatedSeq)
			}
			cs[i].CreatedSeq = 0
		}
		return cs
	}
	c := must(r.st.Campaign(r.ctx, id))(r.t, "campaign")
	for _, name := range []string{"", c.Name, "no such name"} {
		same(r, "campaigns "+name, func(s store.Store) ([]store.Campaign, error) {
			cs, err := s.Campaigns(r.ctx, name)
			return unnumbered(cs), err
		}, func(cs []store.Campaign) (out []store.Campaign) {
			for _, c := range cs {
				if slices.Contains(drew, c.ID) {
					out = append(out, known(c))
				}
			}
			return out
		})
	}
	for _, x := range append(drew, "nobody") {
		same(r, "campaign "+x, func(s store.Store) (store.Campaign, error) {
			c, err := s.Campaign(r.ctx, x)
			c.CreatedSeq = 0
			return c, err
		}, known)
	}
	trials := same(r, "trials", func(s store.Store) ([]store.Trial, error) { return s.Trials(r.ctx, id) }, nil)
	same(r, "trials of nobody", func(s store.Store) ([]store.Trial, error) { return s.Trials(r.ctx, "nobody") }, nil)
	for _, t := range append(trials, store.Trial{Key: "no/such/0"}) {
		same(r, "trace of "+t.Key, func(s store.Store) (string, error) {
			digest, content, err := s.Trace(r.ctx, id, t.Key)
			return digest + "\n" + string(content), err
		}, nil)
	}
	same(r, "trace of nobody", func(s store.Store) (string, error) {
		digest, _, err := s.Trace(r.ctx, "nobody", "no/such/0")
		return digest, err
	}, nil)
	same(r, "seal log", func(s store.Store) ([]store.SealRow, error) { return s.SealLog(r.ctx) }, nil)
	same(r, "queue", func(s store.Store) ([]store.Ticket, error) { return s.Queue(r.ctx, "nowhere", sim) }, nil)
	r.rooms(id)
}

func (r *reader) rooms(id string) {
	r.t.Helper()
	bare := func(h store.Head) store.Head {
		if r.withheld {
			h.Salt = nil
		}
		return h
	}
	heads := func(prefix string) []store.Head {
		return same(r, "rooms "+prefix, func(s store.Store) ([]store.Head, error) { return s.ListRooms(r.ctx, prefix) }, func(hs []store.Head) []store.Head {
			for i := range hs {
				hs[i] = bare(hs[i])
			}
			return hs
		})
	}
	all := heads(id + "/")
	heads(id + "/lamp/")
	heads(id + "/no such")
	rooms := []string{"nobody", id + "/", id + "/no/such/0"}
	for i := range all {
		rooms = append(rooms, all[i].Room)
	}
	for _, room := range rooms {
		whole := func(l *store.Loaded) *store.Loaded {
			l.Head, l.Rows = bare(l.Head), must(r.st.Rows(r.ctx, room, -1, 0))(r.t, "rows")
			all := must(r.st.Load(r.ctx, room))(r.t, "load") // a tail is without them
			l.Snapshot, l.Ops, l.Effects = nil, all.Ops, all.Effects
			return l
		}
		l := same(r, "load "+room, func(s store.Store) (*store.Loaded, error) { return s.Load(r.ctx, room) }, whole)
		same(r, "load tail "+room, func(s store.Store) (*store.Loaded, error) { return s.LoadTail(r.ctx, room) }, whole)
		for _, p := range []struct {
			after int64
			limit int
		}{{-1, 0}, {-9, 0}, {0, 1}, {1, 0}, {99, 3}} {
			same(r, fmt.Sprint("rows ", room, p), func(s store.Store) ([]store.Row, error) { return s.Rows(r.ctx, room, p.after, p.limit) }, nil)
		}
		same(r, "outbox "+room, func(s store.Store) ([]store.OutboxEntry, error) { return s.Outbox(r.ctx, room) }, nil)
		ids := []string{"unknown"}
		if l != nil {
			for i := range l.Ops {
				if i%2 == 0 {
					ids = append(ids, l.Ops[i].ID, l.Ops[i].ID)
				}
			}
		}
		same(r, "operations of "+room, func(s store.Store) (*store.Loaded, error) { return s.LoadOps(r.ctx, room, ids) }, func(l *store.Loaded) *store.Loaded {
			l.Head = bare(l.Head)
			return l
		})
		same(r, "no keys of "+room, func(s store.Store) (map[string]string, error) { return s.Lookup(r.ctx, room, "event", nil) }, nil)
		if _, err := r.a.Lookup(r.ctx, room, "event", []string{"e1"}); l != nil && !errors.Is(err, errors.ErrUnsupported) {
			r.t.Fatalf("look-up in %s: %v", room, err)
		}
		digests := append(r.digests(l), "unknown")
		same(r, "blobs of "+room, func(s store.Store) (map[string][]byte, error) { return s.Blobs(r.ctx, room, digests) }, func(m map[string][]byte) map[string][]byte {
			if r.withheld {
				clear(m)
			}
			return m
		})
	}
}

// digests lists the contents that a room names, found another way than by the
// package: by the form of a digest.
func (r *reader) digests(l *store.Loaded) (out []string) {
	if l == nil {
		return nil
	}
	find := func(b []byte) {
		for i := 0; i+64 <= len(b); i++ {
			if i > 0 && b[i-1] == '"' && i+64 < len(b) && b[i+64] == '"' {
				out = append(out, string(b[i:i+64]))
			}
		}
	}
	for i := range l.Rows {
		find(l.Rows[i].Event)
		find(l.Rows[i].Commands)
	}
	for i := range l.Ops {
		find(l.Ops[i].Request)
		if l.Ops[i].Receipt != nil {
			find(l.Ops[i].Receipt.Result)
		}
	}
	for i := range l.Effects {
		out = append(out, l.Effects[i].Args.Blob.Digest, l.Effects[i].Result.Blob.Digest)
	}
	return out
}
