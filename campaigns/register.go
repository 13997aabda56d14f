package campaigns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// SchemaRegistration is the schema name of registration records.
const SchemaRegistration = "qualify/registration/v1"

// SealRegistration is the kind of the seal rows that hold registrations.
const SealRegistration = "registration"

// Registration is what a campaign commits itself to before its first trial:
// its canonical JSON is appended to the seal log, and its digest stands in the
// run document and in the header of every trace. Like the plan digest it
// depends neither on the code version nor on ceilings, so a new build does not
// change a trace.
type Registration struct {
	Schema    string   `json:"schema"`
	Plan      string   `json:"plan"` // plan digest
	Name      string   `json:"name"`
	Arms      []Arm    `json:"arms"` // ablations too: their role says so
	UnderTest []string `json:"under_test"`
	Matched   Matched  `json:"matched"`
	Schedule  string   `json:"schedule"` // digest of the order of triples, and of arms in each
	Seed      uint64   `json:"seed"`
	Trials    int      `json:"trials"`
	// Policy is what the campaign is to be judged by, with what each rule asks and
	// needs; nil where its file names none.
	Policy *RegisteredPolicy `json:"policy,omitempty"`
	// Protocol is the rest of what Q4.1 asks to be said; it goes with a policy.
	Protocol *Protocol `json:"protocol,omitempty"`
}

// register proves that the arms match and fixes the registration record.
func (p *Plan) register() error {
	m, err := p.prove()
	if err != nil {
		return err
	}
	order := [][]string{}
	for _, t := range p.Schedule() {
		line := []string{t.ID()}
		for _, a := range t.Arms {
			line = append(line, a.Name)
		}
		order = append(order, line)
	}
	schedule, err := engine.Canonical(order)
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	p.registration, err = engine.Canonical(Registration{
		Schema: SchemaRegistration, Plan: p.PlanDigest, Name: p.Name, Arms: p.Arms, UnderTest: p.UnderTest, Matched: m,
		Schedule: "sha256:" + engine.Digest(schedule), Seed: p.Seed, Trials: p.Trials,
		Policy: p.Policy, Protocol: p.protocol(),
	})
	if err != nil {
		return fmt.Errorf("registration: %w", err)
	}
	p.Registration = "sha256:" + engine.Digest(p.registration)
	return nil
}

// sealed is the body of a seal row of a registration.
type sealed struct {
	Campaign string `json:"campaign"`
	Digest   string `json:"digest"`
	Code     string `json:"code"` // version of the code that registered it
	// Predecessor is the older campaign of this name that it changes, "" for none;
	// Differs names the keys of the plan that are other. It stands in the row and not
	// in the record, whose digest must not depend on what a store holds.
	Predecessor string          `json:"predecessor,omitempty"`
	Differs     []string        `json:"differs,omitempty"`
	Record      json.RawMessage `json:"record"`
}

// mostTries bounds how often seal reads the log anew because a row of another
// campaign came between.
const mostTries = 100

// seal appends the registration to the seal log, once per campaign, before the
// campaign itself is stored. The lease keeps others out of this store, but not
// out of another that shares its log by a file; so the row is appended only
// behind what was read.
func (r *Runner) seal(ctx context.Context) error {
	p := r.Plan
	_, err := r.Store.Campaign(ctx, p.ID)
	if err == nil {
		return nil // stored after its registration was sealed
	}
	if !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("campaign %s: %w", p.ID, err)
	}
	for range mostTries {
		log, err := r.Store.SealLog(ctx)
		if err != nil {
			return fmt.Errorf("seal log: %w", err)
		}
		if sealedAs(log, p.ID, p.Registration) != nil {
			return nil // a crash came between
		}
		body, err := r.registrationRow(ctx, log)
		if err != nil {
			return err
		}
		head := ""
		if n := len(log); n > 0 {
			head = log[n-1].Digest
		}
		if _, err = r.Store.AppendSealAfter(ctx, head, SealRegistration, body); err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("registration of campaign %s: %w", p.ID, err)
		}
	}
	return fmt.Errorf("registration of campaign %s: others append to the seal log all the time; run the command again: %w", p.ID, store.ErrConflict)
}

// registrationRow is the row that registers the campaign behind the rows of log.
func (r *Runner) registrationRow(ctx context.Context, log []store.SealRow) ([]byte, error) {
	p := r.Plan
	stored, err := r.Store.Campaigns(ctx, p.Name)
	if err != nil {
		return nil, fmt.Errorf("campaigns %s: %w", p.Name, err)
	}
	row := sealed{Campaign: p.ID, Digest: p.Registration, Code: p.code, Record: p.registration}
	if row.Predecessor, row.Differs, err = p.predecessor(log, stored); err != nil {
		return nil, err
	}
	body, err := engine.Canonical(row)
	if err != nil {
		return nil, fmt.Errorf("registration: %w", err)
	}
	return body, nil
}

// sealedAs finds the row that registers a campaign, under a digest or, with "",
// under any; nil when there is none.
func sealedAs(log []store.SealRow, id, digest string) *sealed {
	for i := range log {
		have := new(sealed)
		if log[i].Kind == SealRegistration && json.Unmarshal(log[i].Body, have) == nil && have.Campaign == id && (digest == "" || have.Digest == digest) {
			return have
		}
	}
	return nil
}

// registeredBy is sealedAs for a digest that the record still has.
func registeredBy(log []store.SealRow, id, digest string) *sealed {
	have := sealedAs(log, id, digest)
	if have == nil || "sha256:"+engine.Digest(have.Record) != digest {
		return nil
	}
	return have
}

// CheckRegistered says why the seal log does not register a campaign as it is
// stored: by the digest of its registration, with its plan, and under the id that
// plan and code give. The error is one line; nil when it does.
func CheckRegistered(log []store.SealRow, c store.Campaign) error {
	have := registeredBy(log, c.ID, c.Registration)
	if have == nil {
		return fmt.Errorf("the seal log has no registration of the campaign by the digest %s", c.Registration)
	}
	var record struct {
		Plan string `json:"plan"`
	}
	if err := json.Unmarshal(have.Record, &record); err != nil {
		return fmt.Errorf("the registration of the campaign in the seal log cannot be read: %w", err)
	}
	switch id := planID(record.Plan, have.Code); {
	case record.Plan != c.PlanDigest:
		return fmt.Errorf("the campaign is registered with the plan %s, and stored with %s", record.Plan, c.PlanDigest)
	case id != c.ID:
		return fmt.Errorf("the campaign is %s, and the plan and code %q of its registration give %s", c.ID, have.Code, id)
	}
	return nil
}

// planID is the id of a campaign: that of its plan and of the code that runs it.
func planID(planDigest, code string) string { return engine.StableID("c_", planDigest, code)[:14] }

// CodeOf is the version of the code that a campaign was registered with, as the
// seal log has it; "" when it has none.
func CodeOf(log []store.SealRow, id string) string {
	if have := sealedAs(log, id, ""); have != nil {
		return have.Code
	}
	return ""
}

// PredecessorOf is the campaign that a registered one names as its predecessor,
// and the keys of the plan in which it says to differ; "" for none.
func PredecessorOf(log []store.SealRow, id string) (predecessor string, differs []string) {
	if have := sealedAs(log, id, ""); have != nil {
		return have.Predecessor, have.Differs
	}
	return "", nil
}
