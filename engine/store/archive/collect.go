package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine/store"
)

// records is everything of a campaign but rooms and traces, as it stood at one
// moment.
type records struct {
	campaign   store.Campaign
	older      []store.Campaign // that drew on the ceilings
	newer      []store.Campaign
	ceilings   []store.Ceiling
	allotments []store.Allotment // in order of grant
	ledger     []store.LedgerRow
	seals      []store.SealRow
	trials     []store.Trial
	rooms      map[string]store.Head // by key
}

// readTries bounds how often the records are read until no other process has
// moved money, the seal log or the campaign's status in between.
const readTries = 100

// collect reads the records of a campaign. What moves money writes a row of the
// ledger with it, so the records agree when ledger, seal log and status are the
// same after as before. Trial records are read behind allotments, and heads of
// rooms behind trials, as each is written before what tells of it: a released
// allotment has its trials, a closed trial its room.
func collect(ctx context.Context, st store.Store, id string, o Options) (*records, error) {
	var ledger []store.LedgerRow
	last := int64(0)
	for range readTries {
		tail, err := st.Ledger(ctx, last, 0)
		if err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
		if ledger = append(ledger, tail...); len(ledger) > 0 {
			last = ledger[len(ledger)-1].N
		}
		r := &records{}
		if err := r.read(ctx, st, id, o, ledger); err != nil {
			return nil, err
		}
		still, err := r.still(ctx, st, last)
		if err != nil {
			return nil, err
		}
		if still {
			return r, r.check()
		}
	}
	return nil, fmt.Errorf("campaign %s: other processes move money faster than it can be read; try again when they have ended: %w", id, store.ErrConflict)
}

// check wants what was granted to stand in the ledger.
func (r *records) check() error {
	if why := checkGrants(r.allotments, r.ledger); why != "" {
		return fmt.Errorf("%s; qualify budget verify lists all that is wrong: %w", why, store.ErrCorrupt)
	}
	return nil
}

func (r *records) still(ctx context.Context, st store.Store, last int64) (bool, error) {
	more, err := st.Ledger(ctx, last, 1)
	if err != nil {
		return false, fmt.Errorf("ledger: %w", err)
	}
	seals, err := st.SealLog(ctx)
	if err != nil {
		return false, fmt.Errorf("seal log: %w", err)
	}
	c, err := st.Campaign(ctx, r.campaign.ID)
	if err != nil {
		return false, err
	}
	return len(more) == 0 && len(seals) == len(r.seals) && c.Status == r.campaign.Status, nil
}

func (r *records) read(ctx context.Context, st store.Store, id string, o Options, ledger []store.LedgerRow) (err error) {
	if r.seals, err = st.SealLog(ctx); err != nil {
		return fmt.Errorf("seal log: %w", err)
	}
	if r.campaign, err = st.Campaign(ctx, id); err != nil {
		return err
	}
	if err := r.readAccount(ctx, st, o, ledger); err != nil {
		return err
	}
	if r.trials, err = st.Trials(ctx, id); err != nil {
		return fmt.Errorf("trials of %s: %w", id, err)
	}
	return r.readHeads(ctx, st)
}

// account names a ceiling.
type account struct {
	name  string
	funds store.Funds
}

// readAccount reads the ceilings that the campaign drew on, or would, and who
// else drew on them.
func (r *records) readAccount(ctx context.Context, st store.Store, o Options, ledger []store.LedgerRow) (err error) {
	if r.allotments, err = st.Allotments(ctx, r.campaign.ID); err != nil {
		return fmt.Errorf("allotments of %s: %w", r.campaign.ID, err)
	}
	drawn := map[account]bool{}
	for i := range r.allotments {
		drawn[account{r.allotments[i].Ceiling, r.allotments[i].Funds}] = true
	}
	if len(drawn) == 0 {
		drawn[account{o.Ceiling, o.Funds}] = true
	}
	if r.ceilings, err = st.Ceilings(ctx); err != nil {
		return fmt.Errorf("ceilings: %w", err)
	}
	r.ceilings = slices.DeleteFunc(r.ceilings, func(c store.Ceiling) bool { return !drawn[account{c.Name, c.Funds}] })
	for i := range ledger {
		if row := &ledger[i]; drawn[account{row.Ceiling, row.Funds}] {
			r.ledger = append(r.ledger, *row)
		}
	}
	return r.readOthers(ctx, st, drawn)
}

// readOthers reads the other campaigns that drew on these ceilings and their
// allotments on them, and puts all allotments in order of grant.
func (r *records) readOthers(ctx context.Context, st store.Store, drawn map[account]bool) error {
	granted := map[string]int64{} // row of the ledger by allotment
	without := map[string]bool{}  // campaigns that the ledger names, without a record
	for _, g := range grantsOf(r.ledger) {
		granted[g.Ref] = g.N
		without[g.Campaign] = true
	}
	campaigns, err := st.Campaigns(ctx, "")
	if err != nil {
		return fmt.Errorf("campaigns: %w", err)
	}
	draw := func(campaign string) (bool, error) {
		as, err := st.Allotments(ctx, campaign)
		if err != nil {
			return false, fmt.Errorf("allotments of %s: %w", campaign, err)
		}
		as = slices.DeleteFunc(as, func(a store.Allotment) bool { return !drawn[account{a.Ceiling, a.Funds}] })
		r.allotments = append(r.allotments, as...)
		return len(as) > 0, nil
	}
	others := &r.older
	for i := range campaigns {
		c := &campaigns[i]
		delete(without, c.ID)
		if c.ID == r.campaign.ID {
			others = &r.newer
			continue
		}
		draws, err := draw(c.ID)
		if err != nil {
			return err
		}
		if draws {
			*others = append(*others, *c)
		}
	}
	for _, c := range sortedKeys(without) {
		if _, err := draw(c); err != nil {
			return err
		}
	}
	slices.SortStableFunc(r.allotments, func(a, b store.Allotment) int { return cmp.Compare(granted[a.ID], granted[b.ID]) })
	return nil
}

// readHeads finds the rooms of the campaign: those of trials that have a
// record, and those that are still at work or were left at it.
func (r *records) readHeads(ctx context.Context, st store.Store) error {
	id := r.campaign.ID
	heads, err := st.ListRooms(ctx, roomID(id, ""))
	if err != nil {
		return fmt.Errorf("rooms of %s: %w", id, err)
	}
	r.rooms = make(map[string]store.Head, len(heads))
	for i := range heads {
		key := strings.TrimPrefix(heads[i].Room, roomID(id, ""))
		if why := badKey(key); why != "" {
			return fmt.Errorf("room %q: the name behind the campaign %s: %w", heads[i].Room, why, store.ErrInvalid)
		}
		r.rooms[key] = heads[i]
	}
	for i := range r.trials {
		t := &r.trials[i]
		if why := badKey(t.Key); why != "" {
			return fmt.Errorf("trial %q of %s: the key %s: %w", t.Key, id, why, store.ErrInvalid)
		}
		if t.Room != "" && t.Room != roomID(id, t.Key) {
			return fmt.Errorf("trial %s of %s: its room is %q, not %q: %w", t.Key, id, t.Room, roomID(id, t.Key), store.ErrCorrupt)
		}
	}
	return nil
}
