package archive

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// schema names the form of all files of an archive.
const schema = "qualify/records/v1"

// campaignDoc is campaign.json. The counts make a file that lost whole lines
// another one.
type campaignDoc struct {
	BodiesWithheld bool            `json:"bodies_withheld"`
	ID             string          `json:"id"`
	LedgerRows     int             `json:"ledger_rows"`
	Name           string          `json:"name"`
	Plan           json.RawMessage `json:"plan"`
	PlanDigest     string          `json:"plan_digest"`
	Registration   string          `json:"registration"`
	Rooms          int             `json:"rooms"`
	Schema         string          `json:"schema"`
	SealRows       int             `json:"seal_rows"`
	Status         string          `json:"status"`
	Trials         int             `json:"trials"`
}

// accountDoc is account.json.
type accountDoc struct {
	Allotments []allotmentDoc `json:"allotments,omitempty"` // on these ceilings, in order of grant
	Ceilings   []ceilingDoc   `json:"ceilings,omitempty"`   // by name, then funds
	Newer      []otherDoc     `json:"newer,omitempty"`      // campaigns that drew on them, oldest first: made after this one
	Older      []otherDoc     `json:"older,omitempty"`      // made before this one
}

type otherDoc struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	PlanDigest string `json:"plan_digest"`
	Status     string `json:"status"`
}

func (d *otherDoc) campaign() store.Campaign {
	return store.Campaign{ID: d.ID, Name: d.Name, PlanDigest: d.PlanDigest, Status: d.Status}
}

// Amounts are USD micros.
type ceilingDoc struct {
	Charged  int64       `json:"charged"`
	Funds    store.Funds `json:"funds"`
	Halted   bool        `json:"halted"`
	Held     int64       `json:"held"`
	Limit    int64       `json:"limit"`
	MaxSum   int64       `json:"max_sum"`
	Name     string      `json:"name"`
	Overruns []string    `json:"overruns,omitempty"`
}

func ceilingDocOf(c *store.Ceiling) ceilingDoc {
	return ceilingDoc{
		Name: c.Name, Funds: c.Funds, Limit: c.Limit, Charged: c.Charged, Held: c.Held, MaxSum: c.MaxSum, Halted: c.Halted, Overruns: c.Overruns,
	}
}

func (d *ceilingDoc) ceiling() store.Ceiling {
	return store.Ceiling{
		Name: d.Name, Funds: d.Funds, Limit: d.Limit, Charged: d.Charged, Held: d.Held, MaxSum: d.MaxSum, Halted: d.Halted, Overruns: d.Overruns,
	}
}

type allotmentDoc struct {
	Campaign    string      `json:"campaign"`
	CampaignCap int64       `json:"campaign_cap"`
	Ceiling     string      `json:"ceiling"`
	Charged     int64       `json:"charged"`
	Funds       store.Funds `json:"funds"`
	ID          string      `json:"id"`
	Kept        int64       `json:"kept"`
	Released    bool        `json:"released"`
	Sum         int64       `json:"sum"`
}

func allotmentDocOf(a *store.Allotment) allotmentDoc {
	return allotmentDoc{
		ID: a.ID, Ceiling: a.Ceiling, Funds: a.Funds, Campaign: a.Campaign, Sum: a.Sum, Released: a.Released, Charged: a.Charged, Kept: a.Kept,
		CampaignCap: a.CampaignCap,
	}
}

func (d *allotmentDoc) allotment() store.Allotment {
	return store.Allotment{
		ID: d.ID, Ceiling: d.Ceiling, Funds: d.Funds, Campaign: d.Campaign, Sum: d.Sum, Released: d.Released, Charged: d.Charged, Kept: d.Kept,
		CampaignCap: d.CampaignCap,
	}
}

// ledgerDoc is a line of ledger.jsonl.
type ledgerDoc struct {
	Campaign     string      `json:"campaign"`
	Ceiling      string      `json:"ceiling"`
	Charged      int64       `json:"charged"`
	DeltaCharged int64       `json:"delta_charged"`
	DeltaHeld    int64       `json:"delta_held"`
	Funds        store.Funds `json:"funds"`
	Held         int64       `json:"held"`
	Kind         string      `json:"kind"`
	Limit        int64       `json:"limit"`
	N            int64       `json:"n"`
	Ref          string      `json:"ref"`
}

func ledgerDocOf(r *store.LedgerRow) ledgerDoc {
	return ledgerDoc{
		N: r.N, Ceiling: r.Ceiling, Funds: r.Funds, Kind: r.Kind, Ref: r.Ref, Campaign: r.Campaign,
		DeltaCharged: r.DeltaCharged, DeltaHeld: r.DeltaHeld, Limit: r.Limit, Charged: r.Charged, Held: r.Held,
	}
}

func (d *ledgerDoc) row() store.LedgerRow {
	return store.LedgerRow{
		N: d.N, Ceiling: d.Ceiling, Funds: d.Funds, Kind: d.Kind, Ref: d.Ref, Campaign: d.Campaign,
		DeltaCharged: d.DeltaCharged, DeltaHeld: d.DeltaHeld, Limit: d.Limit, Charged: d.Charged, Held: d.Held,
	}
}

// sealDoc is a line of seal-log.jsonl. Package freeze writes and reads the same
// lines; a test holds the two together.
type sealDoc struct {
	N      int64           `json:"n"`
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"`
	Prev   string          `json:"prev"`
	Digest string          `json:"digest"`
}

func sealDocOf(r *store.SealRow) (sealDoc, error) {
	body, err := rawJSON("the body", r.Body)
	if err == nil && body == nil {
		err = fmt.Errorf("the body is empty")
	}
	if err != nil {
		return sealDoc{}, fmt.Errorf("row %d of the seal log: %w: %w", r.N, err, store.ErrCorrupt)
	}
	return sealDoc{N: r.N, Kind: r.Kind, Body: body, Prev: r.Prev, Digest: r.Digest}, nil
}

func (d *sealDoc) row() store.SealRow {
	return store.SealRow{N: d.N, Kind: d.Kind, Body: d.Body, Prev: d.Prev, Digest: d.Digest}
}

// trialDoc is a line of trials.jsonl.
type trialDoc struct {
	Allotment   string       `json:"allotment"`
	Arm         string       `json:"arm"`
	Case        string       `json:"case"`
	Index       int          `json:"index"`
	Key         string       `json:"key"`
	Money       engine.Money `json:"money"`
	Order       int          `json:"order"`
	Room        string       `json:"room"`
	Status      string       `json:"status"`
	Termination string       `json:"termination"`
	Trace       string       `json:"trace,omitempty"` // digest under which the trace is stored; "" when none is
	TraceDigest string       `json:"trace_digest"`    // as the record says
}

func trialDocOf(t *store.Trial, trace string) trialDoc {
	return trialDoc{
		Key: t.Key, Order: t.Order, Arm: t.Arm, Case: t.Case, Index: t.Index, Room: t.Room, Allotment: t.Allotment, Status: t.Status,
		Termination: t.Termination, TraceDigest: t.TraceDigest, Money: t.Money, Trace: trace,
	}
}

func (d *trialDoc) trial(campaign string) store.Trial {
	return store.Trial{
		Campaign: campaign, Key: d.Key, Order: d.Order, Arm: d.Arm, Case: d.Case, Index: d.Index, Room: d.Room, Allotment: d.Allotment,
		Status: d.Status, Termination: d.Termination, TraceDigest: d.TraceDigest, Money: d.Money,
	}
}
