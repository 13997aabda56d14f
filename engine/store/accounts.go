package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/budget"
)

// This file is the one table of how ceilings and allotments may move. Each
// move returns the ledger rows that record it, without their numbers.

// NewCeiling opens a ceiling. ErrInvalid.
func NewCeiling(name string, funds Funds, limit int64) (Ceiling, LedgerRow, error) {
	if name == "" || !funds.Valid() || limit < 0 {
		return Ceiling{}, LedgerRow{}, fmt.Errorf("ceiling %q of %q funds, limit %d: %w", name, funds, limit, ErrInvalid)
	}
	c := Ceiling{Name: name, Funds: funds, Limit: limit}
	return c, c.row("ceiling", "", "", 0, 0), nil
}

func (c *Ceiling) row(kind, ref, campaign string, charged, held int64) LedgerRow {
	return LedgerRow{
		Ceiling: c.Name, Funds: c.Funds, Kind: kind, Ref: ref, Campaign: campaign, DeltaCharged: charged, DeltaHeld: held,
		Limit: c.Limit, Charged: c.Charged, Held: c.Held,
	}
}

func (c *Ceiling) account() budget.Account {
	a := budget.Account{Limit: c.Limit, Charged: c.Charged, Held: c.Held, Halted: c.Halted}
	for _, ref := range c.Overruns {
		a.Overruns = append(a.Overruns, budget.Overrun{Ref: ref})
	}
	return a
}

func (c *Ceiling) set(a budget.Account) {
	c.Limit, c.Charged, c.Held, c.Halted = a.Limit, a.Charged, a.Held, a.Halted
	c.MaxSum = max(c.MaxSum, a.Charged+a.Held)
}

// CheckAllotment refuses an allotment that no ceiling could grant: ErrInvalid.
func CheckAllotment(a *Allotment) error {
	if a.ID == "" || a.Sum <= 0 || a.CampaignCap < 0 || !a.Funds.Valid() {
		return fmt.Errorf("allotment %q of %d %q funds, cap %d: %w", a.ID, a.Sum, a.Funds, a.CampaignCap, ErrInvalid)
	}
	return nil
}

// SameAllotment reports whether b asks for what a is: same id, ceiling, funds,
// campaign and sum. The cap is a condition of the grant, not part of it.
func SameAllotment(a, b *Allotment) bool {
	return a.ID == b.ID && a.Ceiling == b.Ceiling && a.Funds == b.Funds && a.Campaign == b.Campaign && a.Sum == b.Sum
}

// Weight is what the allotment counts against its campaign's cap: its sum
// while open, charged and kept afterwards.
func (a *Allotment) Weight() int64 {
	if a.Released {
		return a.Charged + a.Kept
	}
	return a.Sum
}

// Draw moves a.Sum from available to held. used is the weight of the
// campaign's earlier allotments. ErrHalted, ErrExhausted.
func (c *Ceiling) Draw(a *Allotment, used int64) (LedgerRow, error) {
	if a.CampaignCap > 0 && a.Sum > a.CampaignCap-used {
		return LedgerRow{}, fmt.Errorf("allotment %s: %s would pass the cap %s of campaign %s, %s used: %w",
			a.ID, budget.FormatUSD(a.Sum), budget.FormatUSD(a.CampaignCap), a.Campaign, budget.FormatUSD(used), ErrExhausted)
	}
	acc, err := c.account().Reserve(a.Sum)
	if errors.Is(err, budget.ErrHalted) {
		return LedgerRow{}, fmt.Errorf("allotment %s: ceiling %s: %w", a.ID, c.Name, ErrHalted)
	}
	if err != nil {
		return LedgerRow{}, fmt.Errorf("allotment %s: ceiling %s: %s asked, %s available: %w",
			a.ID, c.Name, budget.FormatUSD(a.Sum), budget.FormatUSD(c.Available()), ErrExhausted)
	}
	c.set(acc)
	return c.row("allot", a.ID, a.Campaign, 0, a.Sum), nil
}

// Return closes an allotment with what its trials charged and what uncertain
// operations keep held. Money beyond the sum gets a ledger row of its own,
// kind overrun, and halts the ceiling. ErrInvalid.
func (c *Ceiling) Return(a *Allotment, charged, keep int64) ([]LedgerRow, error) {
	if charged < 0 || keep < 0 || keep > a.Sum {
		return nil, fmt.Errorf("release allotment %s: charged %d, keep %d of %d: %w", a.ID, charged, keep, a.Sum, ErrInvalid)
	}
	within := min(charged, a.Sum-keep)
	excess := charged - within
	acc, err := c.account().Settle(a.ID, a.Sum-keep, within)
	if err != nil {
		return nil, fmt.Errorf("release allotment %s: %w: %w", a.ID, err, ErrInvalid)
	}
	over, err := acc.Settle(a.ID, 0, excess)
	if err != nil {
		return nil, fmt.Errorf("release allotment %s: %w: %w", a.ID, err, ErrInvalid)
	}
	c.set(acc)
	rows := []LedgerRow{c.row("release", a.ID, a.Campaign, within, keep-a.Sum)}
	if excess > 0 {
		c.set(over)
		c.Overruns = append(slices.Clip(c.Overruns), a.ID)
		rows = append(rows, c.row("overrun", a.ID, a.Campaign, excess, 0))
	}
	a.Released, a.Charged, a.Kept = true, charged, keep
	return rows, nil
}

// Grant sets a new total and acknowledges overruns by the allotment's id; the
// halt is cleared when none is left (R39, R40). ErrBelowSpent, ErrNotFound (no
// such overrun), ErrInvalid.
func (c *Ceiling) Grant(total int64, ack []string) ([]LedgerRow, error) {
	acc, err := c.account().Grant(total, ack)
	switch {
	case errors.Is(err, budget.ErrBelowSpent):
		return nil, fmt.Errorf("ceiling %s: total %s, charged and held %s: %w",
			c.Name, budget.FormatUSD(total), budget.FormatUSD(c.Charged+c.Held), ErrBelowSpent)
	case errors.Is(err, budget.ErrNoOverrun):
		return nil, fmt.Errorf("ceiling %s: %w: %w", c.Name, err, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("ceiling %s: %w: %w", c.Name, err, ErrInvalid)
	}
	c.set(acc)
	c.Overruns = slices.DeleteFunc(slices.Clone(c.Overruns), func(ref string) bool { return slices.Contains(ack, ref) })
	rows := []LedgerRow{c.row("grant", "", "", 0, 0)}
	for _, ref := range ack {
		rows = append(rows, c.row("ack", ref, "", 0, 0))
	}
	return rows, nil
}

// Trial statuses.
const (
	TrialPlanned = "planned"
	TrialRunning = "running"
	TrialClosed  = "closed"
	TrialNotRun  = "not_run"
)

// Terminal reports whether the trial's record may no longer change.
func (t *Trial) Terminal() bool { return t.Status == TrialClosed || t.Status == TrialNotRun }

// CompareTrials is the order in which stores list the trials of a campaign: by
// schedule, then arm, then key.
func CompareTrials(a, b Trial) int {
	return cmp.Or(cmp.Compare(a.Order, b.Order), strings.Compare(a.Arm, b.Arm), strings.Compare(a.Key, b.Key))
}

// CompareCeilings is the order in which stores list ceilings: by name, then
// funds.
func CompareCeilings(a, b Ceiling) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Funds, b.Funds))
}

// SameCampaign compares what never changes: all but status, totals and order.
func SameCampaign(a, b *Campaign) bool {
	return a.ID == b.ID && a.Name == b.Name && a.PlanDigest == b.PlanDigest && a.Registration == b.Registration &&
		string(a.Plan) == string(b.Plan)
}

// NextSeal is the row that follows last, the zero row for the first; it holds
// body itself. With a head it must follow the row of that digest ("" for none):
// ErrConflict.
func NextSeal(last SealRow, head *string, kind string, body []byte) (SealRow, error) {
	if head != nil && *head != last.Digest {
		return SealRow{}, fmt.Errorf("seal log: row %d was appended since it was read: %w", last.N, ErrConflict)
	}
	r := SealRow{N: last.N + 1, Kind: kind, Body: body, Prev: last.Digest}
	r.Digest = SealDigest(r)
	return r, nil
}

// SealDigest is the chain digest of a seal row: SHA-256 over every field but
// Digest, each length-prefixed.
func SealDigest(r SealRow) string {
	b := fmt.Appendf(nil, "qualify/seal/v1\n%d\n%d:%s\n%d:", r.N, len(r.Kind), r.Kind, len(r.Body))
	b = append(b, r.Body...)
	b = fmt.Appendf(b, "\n%s", r.Prev)
	return engine.Digest(b)
}
