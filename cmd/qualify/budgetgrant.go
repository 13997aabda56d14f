package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/store"
)

// grantFlags are the flags of qualify budget grant.
type grantFlags struct {
	ceiling string
	funds   string
	ack     []string
	json    bool
}

func (a *app) budgetGrantCmd() *cobra.Command {
	var f grantFlags
	c := &cobra.Command{
		Use:   "grant TOTAL",
		Short: "Set the new total of a ceiling, and acknowledge overruns",
		Long: `Set a ceiling's total to TOTAL USD. Nothing is added to it by itself: TOTAL is
the whole sum, what is charged and held included, and below that it is refused.
Without --ceiling it is the owner's ceiling of real money. The ceiling
campaign/ID of one campaign follows ceiling_usd of its file at every run: raise
that in the file instead.

An overrun, a charge above what was reserved, halts its ceiling or its room until
it is acknowledged with --ack: by the allotment that "budget show" names, or by
the operation of a room. A room keeps its limit; one that was charged beyond it
is given just that much, so it can go on without new money.`,
		Args: exactArgs("TOTAL"),
		RunE: func(c *cobra.Command, args []string) error { return a.grant(c.Context(), args[0], f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.ceiling, "ceiling", "", "`NAME` of the ceiling (default: owner)")
	fl.StringVar(&f.funds, "funds", "", "real or simulated, where both have a ceiling of that `KIND`")
	fl.StringSliceVar(&f.ack, "ack", nil, "acknowledge the overruns of these allotments or `OPERATIONS`, comma-separated")
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	return c
}

func (a *app) grant(ctx context.Context, total string, f grantFlags) error {
	micros, err := budget.ParseUSD(total)
	if err != nil {
		return usagef("budget grant: %w", err)
	}
	if f.funds != "" && !store.Funds(f.funds).Valid() {
		return usagef("budget grant: --funds %q: use real or simulated", f.funds)
	}
	for i, ref := range f.ack {
		if ref == "" || slices.Contains(f.ack[:i], ref) {
			return usagef("budget grant: --ack %q is empty or named twice", ref)
		}
	}
	return a.withStoreTo(ctx, changing, func(s store.Store) error {
		c, err := grantCeiling(ctx, s, micros, f)
		if err != nil {
			return err
		}
		docs, err := ceilings(ctx, s)
		if err != nil {
			return err
		}
		docs = slices.DeleteFunc(docs, func(d ceilingDoc) bool { return d.Name != c.Name || d.Funds != string(c.Funds) })
		if f.json {
			return a.printJSON(struct {
				Schema   schemaRef    `json:"schema"`
				Ceilings []ceilingDoc `json:"ceilings"`
			}{schemaRef{"qualify.budget", 1}, docs})
		}
		a.printCeilings(docs)
		if strings.HasPrefix(c.Name, campaigns.OwnCeiling("")) {
			a.talkf("note: the next run of the campaign sets this ceiling to ceiling_usd of its file; raise it there")
		}
		if c.Halted {
			a.talkf("ceiling %s stays halted; acknowledge with --ack %s", c.Name, strings.Join(c.Overruns, ","))
		}
		return nil
	})
}

// grantCeiling acknowledges overruns of rooms, then makes the grant. A name in
// ack that is an overrun of the ceiling is that; any other is an operation.
func grantCeiling(ctx context.Context, s store.Store, total int64, f grantFlags) (store.Ceiling, error) {
	c, err := chosenCeiling(ctx, s, f)
	if err != nil {
		return c, err
	}
	var ofCeiling, ofRooms []string
	for _, ref := range f.ack {
		if slices.Contains(c.Overruns, ref) {
			ofCeiling = append(ofCeiling, ref)
		} else {
			ofRooms = append(ofRooms, ref)
		}
	}
	if total < c.Charged+c.Held { // before any room is touched
		return c, usagef("budget grant: %s USD is below what ceiling %s has charged and holds, %s USD", usd(total), c.Name, usd(c.Charged+c.Held))
	}
	rooms, err := overrunRooms(ctx, s, c, ofRooms)
	if err != nil {
		return c, err
	}
	for _, r := range rooms {
		if _, err := s.GrantRoom(ctx, r.head.Room, max(r.head.Money.Limit, r.head.Money.Charged+r.head.Money.Held), r.ops); err != nil {
			return c, fmt.Errorf("acknowledge: %w", err)
		}
	}
	granted, err := s.Grant(ctx, c.Name, c.Funds, total, ofCeiling)
	if err != nil {
		return c, fmt.Errorf("grant: %w", err)
	}
	return granted, nil
}

// chosenCeiling is the ceiling that the flags name. The owner's is made when
// no campaign has drawn on it yet.
func chosenCeiling(ctx context.Context, s store.Store, f grantFlags) (store.Ceiling, error) {
	name, funds := f.ceiling, store.Funds(f.funds)
	if name == "" {
		if name = campaigns.OwnerCeiling; funds == "" {
			funds = store.FundsReal
		}
	}
	all, err := s.Ceilings(ctx)
	if err != nil {
		return store.Ceiling{}, err
	}
	var found []store.Ceiling
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
		if c.Name == name && (funds == "" || c.Funds == funds) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return store.Ceiling{}, usagef("budget grant: there is a ceiling %s of real and one of simulated funds; choose with --funds", name)
	case name == campaigns.OwnerCeiling && funds == store.FundsReal:
		return s.EnsureCeiling(ctx, name, funds, campaigns.DefaultOwnerMicros)
	}
	hint := "; qualify budget show lists those there are"
	if near := nearest(name, names); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return store.Ceiling{}, usagef("budget grant: the store has no ceiling %q%s", name, hint)
}

// roomOverrun is a room with the operations to acknowledge.
type roomOverrun struct {
	head store.Head
	ops  []string
}

// overrunRooms finds the halted rooms, of the ceiling's funds, in which
// the operations overran. One that is not found is exit 3.
func overrunRooms(ctx context.Context, s store.Store, c store.Ceiling, ops []string) ([]roomOverrun, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	heads, err := s.ListRooms(ctx, "")
	if err != nil {
		return nil, err
	}
	left := slices.Clone(ops)
	var out []roomOverrun
	for i := range heads {
		if !heads[i].Halted || heads[i].Funds != c.Funds {
			continue
		}
		l, err := s.Load(ctx, heads[i].Room)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r := roomOverrun{head: l.Head}
		for j := range l.Ops {
			op := &l.Ops[j]
			if k := slices.Index(left, op.ID); k >= 0 && op.Overran() && !op.Acknowledged {
				r.ops = append(r.ops, op.ID)
				left = slices.Delete(left, k, k+1)
			}
		}
		if len(r.ops) > 0 {
			out = append(out, r)
		}
	}
	if len(left) > 0 {
		return nil, usagef("budget grant: --ack %s: no overrun of this name waits to be acknowledged; qualify budget show names those that do", strings.Join(left, ", "))
	}
	return out, nil
}
