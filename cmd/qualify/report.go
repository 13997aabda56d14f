package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/reports"
)

// Formats of a report.
const (
	formatTable    = "table"
	formatMarkdown = "markdown"
	formatJSON     = "json"
)

var reportFormats = []string{formatTable, formatMarkdown, formatJSON}

func (a *app) reportCmd() *cobra.Command {
	var format, output, corpusName string
	var asJSON bool
	c := &cobra.Command{
		Use:   "report CAMPAIGN",
		Short: "Score a stored campaign again from its traces and print the result",
		Long: `Score a stored campaign again and print what run printed: CAMPAIGN is an id or
a name (the newest of that name). Every figure but the account is computed from
the stored traces and the gold of the corpus; no stored summary is read.

A campaign that is still running, or was interrupted, is reported as far as it
is complete: trials of triples that are not complete are not run, in every arm,
and nothing is imputed. A triple that a limit cut is treated in the same way.
In a cancelled campaign the trials that are missing count as failures.`,
		Args: exactArgs("CAMPAIGN"),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON {
				if c.Flags().Changed("format") && format != formatJSON {
					return usagef("--json and --format %s: give one of them", format)
				}
				format = formatJSON
			}
			if !slices.Contains(reportFormats, format) {
				return usagef("--format %q: this version writes %s", format, strings.Join(reportFormats, ", "))
			}
			replaces, err := a.checkOutput(output, corpusName)
			if err != nil {
				return err
			}
			return a.withStore(c.Context(), func(s store.Store) error {
				st, err := a.readStored(c.Context(), s, args[0], corpusName)
				if err != nil {
					return err
				}
				if output == "" {
					return writeReport(a.out, format, st.doc)
				}
				var b bytes.Buffer
				if err := writeReport(&b, format, st.doc); err != nil {
					return err
				}
				if err := writeFile(output, b.Bytes()); err != nil {
					return err
				}
				verb := "is in"
				if replaces {
					verb = "replaces what was in"
				}
				a.talkf("the report of campaign %s (%s) %s %s", st.doc.Campaign.Name, st.doc.Campaign.ID, verb, output)
				return nil
			})
		},
	}
	c.AddCommand(a.reportBundleCmd(), a.reportVerifyCmd())
	c.Flags().StringVar(&format, "format", formatTable, "`FORMAT`: "+strings.Join(reportFormats, ", "))
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` instead of stdout, replacing it")
	campaignCorpusFlag(c, &corpusName)
	return c
}

func writeReport(w io.Writer, format string, doc *evaluator.RunDocument) error {
	switch format {
	case formatJSON:
		return reports.JSON(w, doc)
	case formatMarkdown:
		return reports.RunMarkdown(w, doc)
	}
	return reports.RunTable(w, doc)
}

// storedCampaign is a campaign of the store, scored from its traces.
type storedCampaign struct {
	scorer *scorer
	doc    *evaluator.RunDocument
	cut    map[string]bool // trials that enter no figure
}

// readStored scores the closed trials of a stored campaign.
func (a *app) readStored(ctx context.Context, s store.Store, which, corpusName string) (*storedCampaign, error) {
	if which == "" {
		return nil, errNoName
	}
	camp, plan, cs, err := a.reopen(ctx, s, which, corpusName)
	if err != nil {
		return nil, err
	}
	if err := a.logScore(ctx, s, plan); err != nil {
		return nil, err
	}
	at, err := plan.Stand(ctx, s, camp)
	if err != nil {
		return nil, err
	}
	if len(at.Closed) == 0 {
		return nil, usagef("campaign %s (%s) has no finished trial yet; qualify run goes on with it", camp.Name, camp.ID)
	}
	sc := newScorer(plan, cs)
	for _, seat := range plan.Seats() {
		rec, closed := at.Closed[seat.Key()]
		if !closed {
			continue
		}
		_, content, err := s.Trace(ctx, camp.ID, seat.Key())
		if err == nil {
			err = sc.score(seat, rec, content)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errNoGold):
			return nil, err
		case err != nil:
			return nil, usagef("campaign %s: trace of %s: %w; qualify trace verify lists all that is wrong", camp.ID, seat.Key(), err)
		}
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	held, err := holdoutOf(ctx, s, plan.ID)
	if err != nil {
		return nil, err
	}
	doc, err := sc.document(at, runtime.GaugeReading{}, stats, held)
	if err != nil {
		return nil, err
	}
	cut := cutKeys(at)
	maps.Copy(cut, voidKeys(plan, &held))
	return &storedCampaign{sc, doc, cut}, nil
}
