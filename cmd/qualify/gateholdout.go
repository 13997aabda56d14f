package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// freezeWord says what stands behind the freeze of a verdict.
const freezeWord = "seal log"

// cut are the trials that enter no figure: those of triples that were cut or
// are void.
func (in *gateInput) cut() map[string]bool {
	cut := cutKeys(in.at)
	maps.Copy(cut, voidKeys(in.plan, &in.held))
	return cut
}

// checkHead refuses a seal log that ends before the row that the policy names
// (Q4.4).
func (in *gateInput) checkHead(p *gate.Policy) error {
	if p.LogHead == "" || slices.ContainsFunc(in.log, func(r store.SealRow) bool { return r.Digest == p.LogHead }) {
		return nil
	}
	return failf(exitRefused, "policy %s names the head %s, and no row of the seal log has that digest: the log was cut off, is an older copy, or another log; bring the store up with --seal-log, or use the store that the head came from", p.Name, p.LogHead)
}

func broken(format string, args ...any) gate.Check {
	return gate.Check{State: gate.CheckBroken, Detail: fmt.Sprintf(format, args...)}
}

// checkFreeze holds when a freeze that fixes the campaign's plan, gold and
// policy was found unchanged before the first trial, between batches and after
// the last.
func (in *gateInput) checkFreeze(p *gate.Policy) (gate.Check, error) {
	h := &in.held
	if !in.plan.Holdout() && h.Freeze == "" {
		return gate.Check{State: gate.CheckNotTested, Detail: "the campaign ran without a freeze"}, nil
	}
	if h.Freeze == "" {
		return broken("the campaign ran a holdout, and the seal log names no freeze for it"), nil
	}
	m := in.seal.Manifest(h.Freeze)
	switch {
	case m == nil:
		return broken("the seal log does not hold freeze %s", h.Freeze), nil
	case !m.Plans(in.plan.PlanDigest):
		return broken("freeze %s does not hold the plan of the campaign", h.Freeze), nil
	case len(h.Voids) > 0:
		return in.voided(), nil
	case m.Policy["digest"] != p.Digest():
		return broken("the freeze fixes policy %s and this is %s", m.Policy["digest"], p.Digest()), nil
	case !h.Whole() && in.at.Campaign.Status != campaigns.StatusDone:
		return gate.Check{State: gate.CheckNotTested, Detail: "the campaign is not finished: nothing was verified after its last trial"}, nil
	case !h.Whole():
		return broken("freeze %s was not verified after the last trial", h.Freeze), nil
	case h.Batches != in.plan.Batches():
		return broken("the seal log has freeze %s verified over %d batches; the plan has %d", h.Freeze, h.Batches, in.plan.Batches()), nil
	}
	if changed, err := in.changedGold(m); err != nil || changed != "" {
		return broken("the gold of case %s is not the frozen one", changed), err
	}
	return gate.Check{State: gate.CheckHolds, Detail: fmt.Sprintf("freeze %s was verified before the first trial, between %d batches and after the last", h.Freeze, h.Batches)}, nil
}

// voided names what changed while the campaign ran.
func (in *gateInput) voided() gate.Check {
	v := in.held.Voids[0]
	names := make([]string, 0, len(v.Differences))
	for _, d := range v.Differences {
		names = append(names, d.Part+" "+d.Name)
	}
	return broken("%d results are void, since what the freeze covers was changed while the campaign ran: %s", len(in.held.VoidTrials()), strings.Join(names, ", "))
}

// changedGold is a case of the campaign whose gold is not the frozen one, "" for
// none.
func (in *gateInput) changedGold(m *freeze.Manifest) (string, error) {
	now, err := corpusDigests(m.Corpus.Name, in.cases)
	if err != nil {
		return "", err
	}
	split := in.plan.Filter.Split
	for _, c := range in.plan.SelectedCases() {
		if now.Splits[split].Gold[c.ID] != m.Corpus.Splits[split].Gold[c.ID] {
			return c.ID, nil
		}
	}
	return "", nil
}

// checkHoldout holds when the holdout was opened once under the freeze, by this
// campaign.
func (in *gateInput) checkHoldout() gate.Check {
	h := &in.held
	switch {
	case !in.plan.Holdout() && h.Freeze == "":
		return gate.Check{State: gate.CheckNotTested, Detail: "split " + in.plan.Filter.Split + ": no holdout was opened"}
	case !h.Opened:
		return broken("the seal log has no opening of the holdout by the campaign")
	case h.Reopen != "":
		return broken("the campaign opened again what another had opened, %d openings under freeze %s: %s", h.Openings, h.Freeze, h.Reopen)
	case h.Openings != 1:
		return broken("the holdout was opened %d times under freeze %s", h.Openings, h.Freeze)
	}
	return gate.Check{State: gate.CheckHolds, Detail: "one opening under freeze " + h.Freeze}
}

// checkLog recomputes the seal log and wants it to tell of the campaign what its
// records hold.
func (in *gateInput) checkLog() gate.Check {
	if n := len(in.seal.Faults); n > 0 {
		return broken("the seal log has %d faults; the first: %s", n, in.seal.Faults[0])
	}
	if err := toldAsStored(in.log, in.at.Campaign, in.at.SetDigest); err != nil {
		return broken("%s", err)
	}
	return gate.Check{State: gate.CheckHolds, Detail: fmt.Sprintf("%d rows, head %s", in.seal.Rows, in.seal.Head)}
}

// toldAsStored says why the seal log tells of a campaign what its records do not
// hold: another registration, plan or code, another end, or an end with other
// traces. A log without the end contradicts nothing: the process may have been
// killed before it wrote it.
func toldAsStored(log []store.SealRow, c store.Campaign, setDigest string) error {
	if err := campaigns.CheckRegistered(log, c); err != nil {
		return err
	}
	switch end := freeze.EndOf(freezeRows(log), c.ID); {
	case (end.Status == freeze.StatusDone || end.Status == freeze.StatusCancelled) && end.Status != c.Status:
		return fmt.Errorf("the seal log has the campaign %s, its record says %s", end.Status, c.Status)
	case end.Status == freeze.StatusDone && end.Traces != setDigest:
		return fmt.Errorf("the seal log has the campaign done with the traces %s; those that are stored are %s", end.Traces, setDigest)
	}
	return nil
}
