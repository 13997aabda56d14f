package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/reports"
)

func (a *app) compareCmd() *cobra.Command {
	var corpusA, corpusB string
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Put two campaigns, or two arms, side by side",
		Long: `Put two campaigns side by side, arm by arm of the same name, or two arms named
as CAMPAIGN/ARM. CAMPAIGN is an id or a name (the newest of that name). Both are
scored again from their stored traces.

Differences are B - A over the case and trial indices that both have: the mean
over cases of each case's mean difference. Each has an interval and a p value
with families of cases as the units, adjusted by Holm over the metrics, and the
smallest difference that could be detected; a second interval takes the cases as
they are. "No difference shown" is no proof that there is none. A case whose
content differs between the two is not paired.`,
		Args: exactArgs("A", "B"),
		RunE: func(c *cobra.Command, args []string) error {
			if corpusB == "" {
				corpusB = corpusA
			}
			return a.withStore(c.Context(), func(s store.Store) error {
				doc, err := a.compare(c.Context(), s, args, [2]string{corpusA, corpusB})
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(doc)
				}
				return reports.CompareTable(a.out, doc)
			})
		},
	}
	campaignCorpusFlag(c, &corpusA)
	c.Flags().StringVar(&corpusB, "corpus-b", "", "`FOLDER` of the corpus of B, where it is another (that of --corpus)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// comparedSide is one argument of compare, read from the store.
type comparedSide struct {
	*storedCampaign
	name string // as it was given
	arm  string // "" for the whole campaign
}

func (a *app) compare(ctx context.Context, s store.Store, args []string, corpora [2]string) (*evaluator.CompareDocument, error) {
	var sides [2]comparedSide
	for i, arg := range args {
		name, arm, _ := strings.Cut(arg, "/")
		if i > 0 && name == sides[0].name && corpora[0] == corpora[i] {
			sides[i] = comparedSide{sides[0].storedCampaign, name, arm} // two arms of one campaign: its traces are read once
		} else {
			st, err := a.readStored(ctx, s, name, corpora[i])
			if err != nil {
				return nil, err
			}
			sides[i] = comparedSide{st, name, arm}
		}
		if strings.Contains(arg, "/") {
			if err := sides[i].checkArm(arg); err != nil {
				return nil, err
			}
		}
	}
	x, y := &sides[0], &sides[1]
	if x.doc.Campaign.ID == y.doc.Campaign.ID && (x.arm == y.arm || x.arm == "" || y.arm == "") {
		return nil, usagef("%s and %s are the same; name two campaigns, or two arms as CAMPAIGN/ARM", args[0], args[1])
	}
	doc := evaluator.NewCompareDocument()
	doc.Tool = toolName
	doc.A, doc.B = evaluator.SideOf(x.doc, x.arm), evaluator.SideOf(y.doc, y.arm)
	doc.Differs = evaluator.DifferencesOf(&doc.A, &doc.B)
	doc.Changed = evaluator.ChangedCases(x.digests(), y.digests())
	if doc.Evidence = doc.A.Evidence; doc.A.Evidence != doc.B.Evidence {
		doc.Evidence = evaluator.EvidenceDiffers
		doc.Warnings = append(doc.Warnings, "evidence never mixes: no difference is computed")
	}
	pairs, err := pairArms(doc, x, y)
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		pair, err := evaluator.ComparePair(x.side(p[0]), y.side(p[1]))
		if err != nil {
			return nil, err
		}
		if doc.Evidence == evaluator.EvidenceDiffers {
			pair.Differences, pair.PerCompletion = []evaluator.Difference{}, nil
		}
		doc.Arms = append(doc.Arms, pair)
	}
	return doc, nil
}

// pairArms says which arms stand side by side: those that were named, else
// those of the same name; the others are listed in the document.
func pairArms(doc *evaluator.CompareDocument, x, y *comparedSide) ([][2]string, error) {
	if x.arm != "" && y.arm != "" {
		return [][2]string{{x.arm, y.arm}}, nil
	}
	var pairs [][2]string
	inX, inY := x.arms(), y.arms()
	for _, name := range inX {
		if slices.Contains(inY, name) {
			pairs = append(pairs, [2]string{name, name})
		} else {
			doc.OnlyA = append(doc.OnlyA, name)
		}
	}
	for _, name := range inY {
		if !slices.Contains(inX, name) {
			doc.OnlyB = append(doc.OnlyB, name)
		}
	}
	if len(pairs) == 0 {
		return nil, usagef("%s has arms %s, %s has %s: none in common; name two as CAMPAIGN/ARM",
			x.doc.Campaign.Name, strings.Join(inX, ", "), y.doc.Campaign.Name, strings.Join(inY, ", "))
	}
	return pairs, nil
}

// arms are the names of the side's arms: the one that was named, else all.
func (c *comparedSide) arms() []string {
	if c.arm != "" {
		return []string{c.arm}
	}
	return c.allArms()
}

func (c *comparedSide) allArms() []string {
	var names []string
	for _, a := range slices.Concat(c.doc.Arms, c.doc.Ablations) {
		names = append(names, a.Name)
	}
	return names
}

func (c *comparedSide) checkArm(arg string) error {
	all := c.allArms()
	if slices.Contains(all, c.arm) {
		return nil
	}
	hint := ""
	if near := nearest(c.arm, all); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return usagef("%s: campaign %s has no arm %q, it has %s%s", arg, c.doc.Campaign.Name, c.arm, strings.Join(all, ", "), hint)
}

// side is one arm as the evaluator compares it.
func (c *comparedSide) side(arm string) evaluator.PairSide {
	out := evaluator.PairSide{
		Scores: c.scorer.counted(arm, c.cut), Planned: c.scorer.planned(arm, c.cut), Cases: c.digests(),
	}
	for _, a := range slices.Concat(c.doc.Arms, c.doc.Ablations) {
		if a.Name == arm {
			out.Summary = a
		}
	}
	return out
}

// digests are those of the campaign's cases, by id.
func (c *comparedSide) digests() map[string]string {
	m := map[string]string{}
	for _, k := range c.scorer.plan.Cases {
		m[k.ID] = k.Digest
	}
	return m
}
