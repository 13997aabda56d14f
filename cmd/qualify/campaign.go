package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/freeze"
)

func (a *app) campaignCmd() *cobra.Command {
	return a.group("campaign", "Campaigns of the store", a.campaignListCmd(), a.campaignShowCmd(), a.campaignCancelCmd())
}

// armCount counts one arm's trials in a stored campaign.
type armCount struct {
	Name        string            `json:"name"`
	Mode        string            `json:"mode"`
	Role        string            `json:"role,omitempty"`
	Idempotency bool              `json:"idempotency"`
	Options     map[string]string `json:"options"`
	Done        int               `json:"done"`
	Planned     int               `json:"planned"`
}

// campaignMoney is what a campaign drew on its ceiling, USD micros.
type campaignMoney struct {
	Ceiling string `json:"ceiling,omitempty"` // "" before any money is drawn
	Funds   string `json:"funds,omitempty"`
	Charged int64  `json:"charged_micros"` // of closed allotments
	Held    int64  `json:"held_micros"`    // by open allotments and for calls of unknown outcome
	Unknown int64  `json:"unknown_micros"` // of held: for calls of unknown outcome
}

// campaignLine is one campaign in a list.
type campaignLine struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Status   string        `json:"status"`
	Owner    string        `json:"owner,omitempty"` // process that runs it now
	Evidence string        `json:"evidence"`
	Done     int           `json:"done"` // trials with a terminal record, controls left out
	Planned  int           `json:"planned"`
	Money    campaignMoney `json:"money"`
	Created  int64         `json:"created"` // order of creation in the store
}

// campaignDoc is campaign show --json.
type campaignDoc struct {
	Schema schemaRef `json:"schema"`
	campaignLine
	PlanDigest   string `json:"plan_digest"`
	Registration string `json:"registration,omitempty"`
	// Policy is the one that was registered, with what its rules need; nil for none.
	Policy *campaigns.RegisteredPolicy `json:"policy,omitempty"`
	// Hypotheses are those that were registered with it; PrimaryMetric is "" where
	// none of them is primary.
	Hypotheses    []campaigns.Hypothesis `json:"hypotheses,omitempty"`
	PrimaryMetric string                 `json:"primary_metric,omitempty"`
	// Predecessor is the campaign that the registration says it changes, Differs the
	// keys of the plan that are other; both as the seal log has them.
	Predecessor string               `json:"predecessor,omitempty"`
	Differs     []string             `json:"differs,omitempty"`
	Code        string               `json:"code,omitempty"` // version that registered it; "" when the store does not know
	Corpus      string               `json:"corpus"`
	Filter      campaigns.CaseFilter `json:"cases"`
	Cases       []campaigns.PlanCase `json:"case_digests"`
	Seed        uint64               `json:"seed"`
	Trials      int                  `json:"trials"`
	Arms        []armCount           `json:"arms"`
	UnderTest   []string             `json:"under_test"`
	Provider    string               `json:"provider"`
	Model       string               `json:"model"`
	Params      map[string]string    `json:"params"`
	Prices      string               `json:"prices"`
	Clock       string               `json:"clock"`
	Controls    bool                 `json:"controls"`
	Document    json.RawMessage      `json:"run_document,omitempty"` // as last stored by run
}

// readCampaignDoc reads a stored campaign, its trials and its money.
func readCampaignDoc(ctx context.Context, s store.Records, c *store.Campaign, owners map[string]string) (*campaignDoc, error) {
	var p campaigns.Plan
	if err := json.Unmarshal(c.Plan, &p); err != nil {
		return nil, fmt.Errorf("plan of campaign %s: %w", c.ID, err)
	}
	trials, err := s.Trials(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	done := map[string]int{}
	for i := range trials {
		if trials[i].Status == store.TrialClosed {
			done[trials[i].Arm]++
		}
	}
	d := &campaignDoc{
		Schema: schemaRef{"qualify.campaign", 1},
		campaignLine: campaignLine{
			ID: c.ID, Name: c.Name, Status: c.Status, Owner: owners[campaigns.LeaseName(c.ID)], Evidence: p.Evidence, Created: c.CreatedSeq,
		},
		PlanDigest: c.PlanDigest, Registration: c.Registration, Policy: p.Policy, Hypotheses: p.Hypotheses, PrimaryMetric: p.PrimaryMetric(), Corpus: p.CorpusDigest, Filter: p.Filter, Cases: p.Cases,
		Seed: p.Seed, Trials: p.Trials, UnderTest: p.UnderTest, Provider: p.Provider, Model: p.Model, Params: p.Params,
		Prices: p.PricesDigest, Clock: p.Clock, Controls: p.Controls, Document: c.Totals,
	}
	for _, arm := range p.Arms {
		n := armCount{
			Name: arm.Name, Mode: arm.Mode, Role: arm.Role, Idempotency: arm.Idempotency, Options: arm.Options,
			Done: done[arm.Name], Planned: len(p.Cases) * p.Trials,
		}
		d.Done += n.Done
		d.Planned += n.Planned
		d.Arms = append(d.Arms, n)
	}
	d.Money, err = moneyOf(ctx, s, c.ID)
	return d, err
}

// moneyOf sums the allotments of a campaign.
func moneyOf(ctx context.Context, s store.Records, id string) (campaignMoney, error) {
	var m campaignMoney
	as, err := s.Allotments(ctx, id)
	if err != nil {
		return m, err
	}
	for _, a := range as {
		m.Ceiling, m.Funds = a.Ceiling, string(a.Funds)
		if !a.Released {
			m.Held += a.Sum
			continue
		}
		m.Charged += a.Charged
		m.Held += a.Kept
		m.Unknown += a.Kept
	}
	return m, nil
}

// liveOwners are the owners of live leases, by the lease's name, as shown to
// people. A process that provably runs no more owns nothing.
func liveOwners(ctx context.Context, s store.Records) (map[string]string, error) {
	leases, err := s.Leases(ctx)
	if err != nil {
		return nil, err
	}
	self := thisProcess(procfs)
	out := map[string]string{}
	for _, l := range leases {
		if !self.gone(procfs, l.Owner) {
			out[l.Name] = shownOwner(l.Owner)
		}
	}
	return out, nil
}

func (a *app) campaignListCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the campaigns of the store, oldest first",
		Long: `List the campaigns of the store, oldest first. The status is running (not
finished, so interrupted ones too: "run by" says whether a process is at work on
it), stopped (by a limit), done or cancelled.`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			return a.withStore(ctx, func(s store.Store) error {
				all, err := listedCampaigns(ctx, s)
				if err != nil {
					return err
				}
				owners, err := liveOwners(ctx, s)
				if err != nil {
					return err
				}
				lines := []campaignLine{}
				for i := range all {
					d, err := readCampaignDoc(ctx, s, &all[i], owners)
					if err != nil {
						return err
					}
					lines = append(lines, d.campaignLine)
				}
				if asJSON {
					return a.printJSON(struct {
						Schema    schemaRef      `json:"schema"`
						Campaigns []campaignLine `json:"campaigns"`
					}{schemaRef{"qualify.campaigns", 1}, lines})
				}
				if len(lines) == 0 {
					a.printf("no campaign yet; qualify run starts one\n")
					return nil
				}
				a.table("n\tid\tname\tstatus\ttrials\tcharged\theld\trun by", func(row func(...string)) {
					for i := range lines {
						l := &lines[i]
						row(strconv.FormatInt(l.Created, 10), l.ID, l.Name, l.Status, fmt.Sprintf("%d/%d", l.Done, l.Planned),
							usd(l.Money.Charged), usd(l.Money.Held), orDash(l.Owner))
					}
				})
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) campaignShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID|NAME",
		Short: "Print the plan of a campaign and how far it is",
		Long: `Print the plan of a campaign, its digests, what it registered before its first
trial, how many trials of each arm are done and what it drew on its ceiling. A name means the newest campaign of that name.
--json also has the run document as run stored it last; qualify report computes
it again from the traces.`,
		Args: exactArgs("ID|NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withStore(ctx, func(s store.Store) error {
				camp, err := findCampaign(ctx, s, args[0])
				if err != nil {
					return err
				}
				owners, err := liveOwners(ctx, s)
				if err != nil {
					return err
				}
				d, err := readCampaignDoc(ctx, s, &camp, owners)
				if err != nil {
					return err
				}
				log, err := s.SealLog(ctx)
				if err != nil {
					return err
				}
				d.Code = campaigns.CodeOf(log, camp.ID)
				d.Predecessor, d.Differs = campaigns.PredecessorOf(log, camp.ID)
				if asJSON {
					return a.printJSON(d)
				}
				a.printCampaign(d)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) printCampaign(d *campaignDoc) {
	document := "none stored"
	if len(d.Document) > 0 {
		document = "stored; --json prints it, qualify report computes it again"
	}
	exclude := ""
	if len(d.Filter.Exclude) > 0 {
		exclude = ", exclude " + strings.Join(d.Filter.Exclude, " ")
	}
	a.table("campaign\t"+d.ID, func(row func(...string)) {
		row("name", d.Name)
		row("status", d.Status)
		row("run by", orDash(d.Owner))
		row("evidence", d.Evidence)
		row("trials", fmt.Sprintf("%d of %d done; %s, %s each", d.Done, d.Planned, plural(len(d.Cases), "case"), plural(d.Trials, "trial")))
		row("cases", fmt.Sprintf("split %s, include %s%s", d.Filter.Split, strings.Join(d.Filter.Include, " "), exclude))
		row("seed", strconv.FormatUint(d.Seed, 10))
		row("under test", orDash(strings.Join(d.UnderTest, ", ")))
		row("model", d.Provider+" "+d.Model)
		row("clock", d.Clock)
		row("controls", strconv.FormatBool(d.Controls))
		row("money", fmt.Sprintf("charged %s, held %s (%s of it for calls of unknown outcome) USD, %s ceiling %s",
			usd(d.Money.Charged), usd(d.Money.Held), usd(d.Money.Unknown), cmp.Or(d.Money.Funds, "no"), orDash(d.Money.Ceiling)))
		row("corpus", d.Corpus)
		row("prices", d.Prices)
		row("plan", d.PlanDigest)
		row("registration", orDash(d.Registration))
		row("predecessor", predecessorWords(d))
		row("policy", registeredPolicy(d.Policy))
		if p := d.Policy; p != nil && p.Method != "" {
			row("judged", judgedWords(p))
		}
		if len(d.Hypotheses) > 0 {
			row("primary metric", orDash(d.PrimaryMetric))
		}
		for _, h := range d.Hypotheses {
			name := "hypothesis"
			if h.Primary {
				name = "primary hypothesis"
			}
			row(name, fmt.Sprintf("%s (by %s)", h.Text, strings.Join(h.Rules, ", ")))
		}
		row("code", orDash(d.Code))
		row("run document", document)
	})
	a.printf("\n")
	a.table("arm\tmode\trole\tidempotency\toptions\tdone", func(row func(...string)) {
		for _, arm := range d.Arms {
			options := []string{}
			for _, k := range slices.Sorted(maps.Keys(arm.Options)) {
				options = append(options, k+"="+arm.Options[k])
			}
			idempotency := "off"
			if arm.Idempotency {
				idempotency = "on"
			}
			row(arm.Name, arm.Mode, cmp.Or(arm.Role, "compared"), idempotency, orDash(strings.Join(options, " ")), fmt.Sprintf("%d/%d", arm.Done, arm.Planned))
		}
	})
}

// predecessorWords say which campaign this one changes, and in what.
func predecessorWords(d *campaignDoc) string {
	if len(d.Differs) == 0 {
		return orDash(d.Predecessor)
	}
	return d.Predecessor + "; this one differs in " + strings.Join(d.Differs, ", ")
}

// judgedWords are the figures of a registered policy, in one line.
func judgedWords(p *campaigns.RegisteredPolicy) string {
	when := p.Method
	if len(p.At) > 0 {
		when += fmt.Sprintf(" at %v of the planned trials (%s)", p.At, p.Spending)
	}
	return fmt.Sprintf("%s; alpha %v one-sided, power %v, %s", when, p.Alpha, p.Power, p.Multiplicity)
}

// registeredPolicy is the policy of a registration, in one line.
func registeredPolicy(p *campaigns.RegisteredPolicy) string {
	if p == nil {
		return "none registered"
	}
	fits := "each required rule can pass"
	if !p.Fits {
		fits = "a required rule cannot be sure to pass"
	}
	return fmt.Sprintf("%s (%s), %s, %s", p.Name, p.Source, p.Digest, fits)
}

func (a *app) campaignCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID|NAME",
		Short: "End a campaign that is not finished, for good",
		Long: `End a campaign that is not finished: run refuses it from then on. A name means
the newest campaign of that name. Nothing is deleted. Money that its open
allotments hold returns to the ceiling, but for what was spent and for calls of
unknown outcome. A campaign that has started ends in the seal log too. One that a
process runs is refused (exit 5): stop that process first.`,
		Args: exactArgs("ID|NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withStoreTo(ctx, changing, func(s store.Store) error { return a.campaignCancel(ctx, s, args[0]) })
		},
	}
}

func (a *app) campaignCancel(ctx context.Context, s store.Store, which string) error {
	camp, err := findCampaign(ctx, s, which)
	if err != nil {
		return err
	}
	var plan campaigns.Plan
	if err := json.Unmarshal(camp.Plan, &plan); err != nil {
		return fmt.Errorf("plan of campaign %s: %w", camp.ID, err)
	}
	clock, err := a.recordClock(model.Evidence(plan.Evidence))
	if err != nil {
		return err
	}
	owner, err := campaignOwner()
	if err != nil {
		return err
	}
	done, err := campaigns.Cancel(ctx, s, camp.ID, owner)
	var owned *campaigns.OwnedError
	switch {
	case errors.As(err, &owned):
		return failf(exitRefused, "campaign %s is run by %s; stop that process, then cancel again", camp.ID, shownOwner(owned.Owner))
	case errors.Is(err, campaigns.ErrFinished):
		return failf(exitRefused, "%w; there is nothing to cancel", err)
	case err != nil:
		return err
	}
	end := freeze.Run{Log: storeLog{s}, Campaign: camp.ID, Now: clock.moment}
	if err := end.End(ctx, campaigns.StatusCancelled, ""); err != nil {
		return freezeFault(err)
	}
	was := ""
	if done.Campaign.Status == campaigns.StatusCancelled {
		was = "already "
	}
	a.printf("campaign %s (%s) is %scancelled; of what it held, %s USD returned to its ceiling, %s were charged, %s are kept for calls of unknown outcome\n",
		camp.ID, camp.Name, was, usd(done.Freed), usd(done.Charged), usd(done.Kept))
	return nil
}

// noteOlder says, when a plan is new under a name that the store knows, which
// older campaign is closest and in what they differ.
func (a *app) noteOlder(ctx context.Context, s store.Records, p *campaigns.Plan) error {
	_, err := s.Campaign(ctx, p.ID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	old, err := s.Campaigns(ctx, p.Name)
	if err != nil {
		return err
	}
	closest, differs, ok, err := p.Closest(old)
	if err != nil || !ok {
		return err
	}
	in := "the code that runs it"
	if len(differs) > 0 {
		in = strings.Join(differs, ", ")
	}
	a.talkf("note: campaign %s has run before as %s; this one is %s and differs in %s", p.Name, closest.ID, p.ID, in)
	return nil
}
