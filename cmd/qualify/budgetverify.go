package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/store"
)

// budgetFault is one sum that does not follow from what it is made of.
type budgetFault struct {
	What string `json:"what"` // ceiling, campaign, allotment, room or trial
	Name string `json:"name"`
	Text string `json:"text"`
}

// budgetVerifyDoc is budget verify --json.
type budgetVerifyDoc struct {
	Schema     schemaRef     `json:"schema"`
	Ceilings   int           `json:"ceilings"`
	LedgerRows int           `json:"ledger_rows"`
	Allotments int           `json:"allotments"`
	Rooms      int           `json:"rooms"`
	Operations int           `json:"operations"`
	Faults     []budgetFault `json:"faults"`
}

func (a *app) budgetVerifyCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Derive every sum again: ceilings from the ledger, allotments from rooms, rooms from receipts",
		Long: `Derive every sum of money in the store again from what it is made of: ceilings
from the ledger and from their allotments, what each campaign has drawn from its
allotments, closed allotments from their rooms, rooms from their operations,
operations from their receipts, trial records from their rooms. One line for each difference, and exit 1 when there is one. Sums of
campaigns that run at this moment may be seen between two writes; verify again
when they have ended.`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withStore(c.Context(), func(s store.Store) error {
				only := ""
				if b, ok := s.(*bundleStore); ok {
					only = b.ID()
				}
				doc, err := verifyBudget(c.Context(), s, only)
				if err != nil {
					return err
				}
				if asJSON {
					err = a.printJSON(doc)
				} else {
					for _, f := range doc.Faults {
						a.printf("%s %s: %s\n", f.What, oneLine(f.Name), oneLine(f.Text))
					}
					a.printf("%s, %s, %s, %s, %s: %s\n", plural(doc.Ceilings, "ceiling"), plural(doc.LedgerRows, "ledger row"),
						plural(doc.Allotments, "allotment"), plural(doc.Rooms, "room"), plural(doc.Operations, "operation"), plural(len(doc.Faults), "difference"))
				}
				if err == nil && len(doc.Faults) > 0 {
					err = verdict(exitFail)
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// verifier gathers the sums of a store from below and compares them on the way
// up.
type verifier struct {
	doc     *budgetVerifyDoc
	only    string                 // the one campaign whose rooms are there; "" for all
	rooms   map[string]sums        // by allotment
	heads   map[string]sums        // by room
	open    map[accountOf]sums     // by ceiling: held by open and by released allotments, charged by released
	entries map[string][2]sums     // by allotment: what the ledger granted and what it returned
	drew    map[string]string      // by allotment: the campaign that its rows of the ledger name
	overrun map[accountOf][]string // by ceiling, from the ledger
}

type sums struct{ charged, held int64 }

func (v *verifier) fault(what, name, format string, args ...any) {
	v.doc.Faults = append(v.doc.Faults, budgetFault{what, name, fmt.Sprintf(format, args...)})
}

// verifyBudget derives every sum of a store. In one that holds the rooms of only
// one campaign, allotments of others are compared with the ledger alone.
func verifyBudget(ctx context.Context, s store.Store, only string) (*budgetVerifyDoc, error) {
	v := &verifier{
		only:  only,
		doc:   &budgetVerifyDoc{Schema: schemaRef{"qualify.budget-verify", 1}, Faults: []budgetFault{}},
		rooms: map[string]sums{}, heads: map[string]sums{}, open: map[accountOf]sums{}, entries: map[string][2]sums{},
		overrun: map[accountOf][]string{}, drew: map[string]string{},
	}
	for _, step := range []func(context.Context, store.Store) error{v.checkRooms, v.readLedger, v.checkCampaigns, v.checkCeilings} {
		if err := step(ctx, s); err != nil {
			return nil, err
		}
	}
	return v.doc, nil
}

func (v *verifier) checkRooms(ctx context.Context, s store.Store) error {
	heads, err := s.ListRooms(ctx, "")
	if err != nil {
		return err
	}
	for i := range heads {
		l, err := s.Load(ctx, heads[i].Room)
		if err != nil {
			return err
		}
		v.checkRoom(l)
	}
	return nil
}

// checkRoom derives a room's account from its operations, and each operation
// from its receipt and reconciliation.
func (v *verifier) checkRoom(l *store.Loaded) {
	h := &l.Head
	var charged, held, unknown int64
	halted := false
	for i := range l.Ops {
		op := &l.Ops[i]
		var want int64
		switch {
		case op.Reconciled != nil:
			want = op.Reconciled.ChargedMicros
		case op.Receipt != nil:
			want = op.Receipt.ChargedMicros
		}
		if op.ChargedMicros != want {
			v.fault("room", h.Room, "operation %s is charged %s, its receipt says %s", op.ID, usd(op.ChargedMicros), usd(want))
		}
		charged += op.ChargedMicros
		if op.Status == store.OpReserved || op.Status == store.OpDispatched || op.Status == store.OpUncertain {
			held += op.ReservedMicros
		}
		if op.Status == store.OpUncertain {
			unknown += op.ReservedMicros
		}
		halted = halted || op.Overran() && !op.Acknowledged
	}
	v.doc.Rooms++
	v.doc.Operations += len(l.Ops)
	m := h.Money
	if m.Charged != charged || m.Held != held || m.Unknown != unknown {
		v.fault("room", h.Room, "charged %s, held %s, unknown %s; its operations make %s, %s, %s",
			usd(m.Charged), usd(m.Held), usd(m.Unknown), usd(charged), usd(held), usd(unknown))
	}
	if h.Halted != halted {
		v.fault("room", h.Room, "halted is %t; its operations make it %t", h.Halted, halted)
	}
	v.heads[h.Room] = sums{m.Charged, m.Held}
	if h.Allotment != "" {
		a := v.rooms[h.Allotment]
		v.rooms[h.Allotment] = sums{a.charged + m.Charged, a.held + m.Held}
	}
}

// readLedger sums the rows by allotment and collects overruns that no row
// acknowledges.
func (v *verifier) readLedger(ctx context.Context, s store.Store) error {
	rows, err := s.Ledger(ctx, 0, 0)
	if err != nil {
		return err
	}
	v.doc.LedgerRows = len(rows)
	for i := range rows {
		r := &rows[i]
		at := accountOf{r.Ceiling, r.Funds}
		switch r.Kind {
		case "allot", "release", "overrun":
			v.readEntry(r)
		case "ceiling", "grant":
			if r.Ref != "" || r.Campaign != "" {
				v.fault("ceiling", r.Ceiling, "row %d of the ledger is a %s, and names %q of campaign %q", r.N, r.Kind, r.Ref, r.Campaign)
			}
		case "ack":
			if r.Campaign != "" {
				v.fault("ceiling", r.Ceiling, "row %d of the ledger acknowledges an overrun, and names campaign %s", r.N, r.Campaign)
			}
			v.overrun[at] = slices.DeleteFunc(v.overrun[at], func(ref string) bool { return ref == r.Ref })
		default:
			v.fault("ceiling", r.Ceiling, "row %d of the ledger is a %q, which this version does not know", r.N, r.Kind)
		}
	}
	return nil
}

// readEntry takes in a row about an allotment. All its rows name one campaign.
func (v *verifier) readEntry(r *store.LedgerRow) {
	e := v.entries[r.Ref]
	side := &e[1]
	if r.Kind == "allot" {
		side = &e[0]
	}
	side.charged += r.DeltaCharged
	side.held += r.DeltaHeld
	v.entries[r.Ref] = e
	if r.Kind == "overrun" {
		at := accountOf{r.Ceiling, r.Funds}
		v.overrun[at] = append(v.overrun[at], r.Ref)
	}
	if before, ok := v.drew[r.Ref]; ok && before != r.Campaign {
		v.fault("allotment", r.Ref, "row %d of the ledger names campaign %s, an earlier one %s", r.N, r.Campaign, before)
		return
	}
	v.drew[r.Ref] = r.Campaign
}

// checkCampaigns compares allotments with the ledger and with their rooms, and
// closed trials with their rooms.
func (v *verifier) checkCampaigns(ctx context.Context, s store.Store) error {
	all, err := s.Campaigns(ctx, "")
	if err != nil {
		return err
	}
	for i := range all {
		as, err := s.Allotments(ctx, all[i].ID)
		if err != nil {
			return err
		}
		for j := range as {
			v.checkAllotment(&as[j])
		}
		if err := v.checkWeight(ctx, s, all[i].ID, as); err != nil {
			return err
		}
		trials, err := s.Trials(ctx, all[i].ID)
		if err != nil {
			return err
		}
		for _, t := range trials {
			if t.Status != store.TrialClosed {
				continue
			}
			have := sums{t.Money.Charged, t.Money.Held}
			if room, ok := v.heads[t.Room]; !ok || room != have {
				v.fault("trial", t.Campaign+"/"+t.Key, "charged %s, held %s; its room has %s, %s",
					usd(have.charged), usd(have.held), usd(room.charged), usd(room.held))
			}
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(v.entries)) {
		v.fault("allotment", ref, "the ledger knows it, no campaign does")
	}
	return nil
}

// checkWeight derives what the campaign's allotments weigh against its cap.
func (v *verifier) checkWeight(ctx context.Context, s store.Store, campaign string, as []store.Allotment) error {
	for _, f := range []store.Funds{store.FundsReal, store.FundsSimulated} {
		weight, err := s.CampaignWeight(ctx, campaign, f)
		if err != nil {
			return err
		}
		var want int64
		for i := range as {
			if as[i].Funds == f {
				want += as[i].Weight()
			}
		}
		if weight != want {
			v.fault("campaign", campaign, "has drawn %s of %s funds; its allotments make %s", usd(weight), f, usd(want))
		}
	}
	return nil
}

func (v *verifier) checkAllotment(a *store.Allotment) {
	v.doc.Allotments++
	e := v.entries[a.ID]
	delete(v.entries, a.ID)
	if c, ok := v.drew[a.ID]; ok && c != a.Campaign {
		v.fault("allotment", a.ID, "is of campaign %s; the ledger says %s", a.Campaign, c)
	}
	if want := (sums{0, a.Sum}); e[0] != want {
		v.fault("allotment", a.ID, "draws %s; the ledger held %s, charged %s", usd(a.Sum), usd(e[0].held), usd(e[0].charged))
	}
	var back sums
	if a.Released {
		back = sums{a.Charged, a.Kept - a.Sum}
	}
	if e[1] != back {
		v.fault("allotment", a.ID, "returned %s, charged %s; the ledger returned %s, charged %s",
			usd(-back.held), usd(back.charged), usd(-e[1].held), usd(e[1].charged))
	}
	at := accountOf{a.Ceiling, a.Funds}
	o := v.open[at]
	if !a.Released {
		v.open[at] = sums{o.charged, o.held + a.Sum}
		return
	}
	v.open[at] = sums{o.charged + a.Charged, o.held + a.Kept}
	if rooms := v.rooms[a.ID]; rooms != (sums{a.Charged, a.Kept}) && (v.only == "" || v.only == a.Campaign) {
		v.fault("allotment", a.ID, "closed with %s charged, %s kept; its rooms make %s, %s",
			usd(a.Charged), usd(a.Kept), usd(rooms.charged), usd(rooms.held))
	}
}

// checkCeilings proves each ceiling over the ledger, and compares it with its
// allotments.
func (v *verifier) checkCeilings(ctx context.Context, s store.Store) error {
	all, err := s.Ceilings(ctx)
	if err != nil {
		return err
	}
	rows, err := s.Ledger(ctx, 0, 0)
	if err != nil {
		return err
	}
	v.doc.Ceilings = len(all)
	known := map[accountOf]bool{}
	for _, c := range all {
		known[accountOf{c.Name, c.Funds}] = true
	}
	for _, r := range rows {
		if at := (accountOf{r.Ceiling, r.Funds}); !known[at] {
			known[at] = true // said once
			v.fault("ceiling", r.Ceiling, "row %d of the ledger moves money of this ceiling (%s funds), which is not there", r.N, r.Funds)
		}
	}
	for _, c := range all {
		at := accountOf{c.Name, c.Funds}
		if fault := proveLedger(c, rows); fault != "" {
			v.fault("ceiling", c.Name, "%s", fault)
		}
		if o := v.open[at]; o != (sums{c.Charged, c.Held}) {
			v.fault("ceiling", c.Name, "charged %s, held %s; its allotments make %s, %s", usd(c.Charged), usd(c.Held), usd(o.charged), usd(o.held))
		}
		if !slices.Equal(v.overrun[at], c.Overruns) || c.Halted != (len(c.Overruns) > 0) {
			v.fault("ceiling", c.Name, "halted %t by %q; the ledger has unacknowledged overruns %q", c.Halted, c.Overruns, v.overrun[at])
		}
	}
	return nil
}
