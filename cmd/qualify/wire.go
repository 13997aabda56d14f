package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/simulated"
	"github.com/agentrooms/qualify/modes"
	"github.com/agentrooms/qualify/modes/legacy"
	"github.com/agentrooms/qualify/modes/planner"
	"github.com/agentrooms/qualify/modes/selective"
)

// builtinName is the built-in corpus in campaign files and --corpus.
const builtinName = "builtin"

// knownModes are the modes of this build, controls included.
func knownModes() map[string]modes.Mode {
	out := map[string]modes.Mode{}
	for _, m := range []modes.Mode{legacy.Mode{}, selective.Mode{}, planner.Mode{}, modes.DoNothing(), modes.ClaimOnly()} {
		out[m.Name()] = m
	}
	return out
}

// knownProviders are the providers that campaign files may name.
func knownProviders() map[string]model.Evidence {
	return map[string]model.Evidence{simulated.Name: model.Simulated}
}

// cases is a corpus with its gold, which only cmd holds side by side.
type cases struct {
	corpus *corpus.Corpus
	gold   *gold.Set
	sealed *sealedCorpus // nil unless the corpus was sealed
}

// loadCases reads the built-in corpus, or a folder or sealed file with its gold
// under gold; base is what a relative name is relative to.
func (a *app) loadCases(name, base string) (*cases, error) {
	if name == builtinName {
		c, err := corpus.Builtin()
		if err != nil {
			return nil, fmt.Errorf("built-in corpus: %w", err)
		}
		g, err := gold.Builtin()
		if err != nil {
			return nil, fmt.Errorf("built-in gold: %w", err)
		}
		return &cases{corpus: c, gold: g}, nil
	}
	place := name
	if !filepath.IsAbs(place) {
		place = filepath.Join(base, place)
	}
	tree, sealed, err := a.corpusTree(place)
	if err != nil {
		return nil, err
	}
	return casesIn(place, tree, sealed)
}

// casesIn reads the cases of a tree, and their gold in its folder gold.
func casesIn(place string, tree fs.FS, sealed *sealedCorpus) (*cases, error) {
	cs := &cases{sealed: sealed}
	var err error
	if sealed != nil {
		cs.corpus = sealed.Corpus
	} else if cs.corpus, err = corpus.Load(tree); err != nil {
		return nil, usagef("corpus %s: %w", place, err)
	}
	if cs.gold, err = goldIn(tree); err != nil {
		return nil, usagef("gold of corpus %s: %w", place, err)
	}
	if sealed != nil {
		if err := checkSealedGold(cs); err != nil {
			return nil, usagef("corpus %s: %w", place, err)
		}
	}
	return cs, nil
}

// cause drops the path from a file error; the message names it already.
func cause(err error) error {
	if pe, ok := err.(*fs.PathError); ok { //nolint:errorlint // os.Stat returns it unwrapped
		return pe.Err
	}
	return err
}

// errNoGold is the word in the error of a case that cannot be scored.
var errNoGold = errors.New("gold")

// of returns a case of a plan with its gold; a campaign cannot be scored
// without.
func (c *cases) of(id string) (*corpus.Case, *gold.Gold, error) {
	cs, ok := c.corpus.Case(id)
	if !ok {
		return nil, nil, fmt.Errorf("case %s is not in the corpus", id)
	}
	g, ok := c.gold.Get(id)
	if !ok {
		return nil, nil, usagef("case %s has no %w: expected gold/%s/<case>.yaml beside the corpus", id, errNoGold, cs.Family)
	}
	return cs, g, nil
}

// oracle is the gold solution as the simulated model reads it. The simulated
// model is the only party that acts and may see it (DESIGN §5).
func oracle(cs *corpus.Case, g *gold.Gold) simulated.Oracle {
	o := simulated.Oracle{NeedsPlan: g.NeedsPlan, Messages: map[string]string{}, Tools: map[string]string{}}
	for _, k := range cs.Room.Criteria {
		o.Criteria = append(o.Criteria, k.ID)
	}
	for _, t := range cs.Tools {
		o.Tools[t.Name] = t.Action
	}
	for _, m := range cs.Owner.Messages {
		o.Messages[m.ID] = m.Text
	}
	for _, m := range cs.Owner.Corrections {
		o.Messages[m.ID] = m.Text
	}
	for _, s := range g.Solution {
		st := simulated.Step{
			ID: s.ID, By: s.By, Tool: s.Call, Args: []byte(s.Args), Say: s.Say, After: s.After, Meets: s.Meets,
			Report: s.Report, Since: s.Since, Until: s.Until,
		}
		if s.Artifact != nil {
			st.Artifact = &engine.ArtifactText{Name: s.Artifact.Name, Text: s.Artifact.Text}
		}
		if s.Final() {
			st.Args = nil
		}
		o.Steps = append(o.Steps, st)
	}
	return o
}

// simulatedProviders builds the provider of each trial. journal may be nil.
func simulatedProviders(p *campaigns.Plan, cs *cases, journal model.Journal) (func(campaigns.ProviderKey) (model.Provider, error), error) {
	rates, err := simulatedRates(p.Simulated)
	if err != nil {
		return nil, err
	}
	oracles := map[string]simulated.Oracle{}
	for _, c := range p.SelectedCases() {
		_, g, err := cs.of(c.ID)
		if err != nil {
			return nil, err
		}
		oracles[c.ID] = oracle(c, g)
	}
	latency := simulated.Latency{MedianMS: p.Simulated.LatencyMS.Median, P95MS: p.Simulated.LatencyMS.P95}
	return func(k campaigns.ProviderKey) (model.Provider, error) {
		return simulated.New(simulated.Config{
			Key:    simulated.Key{Seed: k.Seed, Case: k.Case, Trial: k.Trial, Salt: k.Salt},
			Oracle: oracles[k.Case], Rates: rates, Latency: latency, Journal: journal,
		})
	}, nil
}

func simulatedRates(f *campaigns.SimulatedFile) (simulated.Rates, error) {
	var r simulated.Rates
	for _, x := range []struct {
		text string
		to   *simulated.Rate
	}{
		{f.SkipStep, &r.SkipStep},
		{f.WrongArgument, &r.WrongArgument},
		{f.EarlyClaim, &r.EarlyClaim},
		{f.MalformedJSON, &r.MalformedJSON},
		{f.MissingUsage, &r.MissingUsage},
		{f.LostReply, &r.LostReply},
		{f.RetryAfterUnknown, &r.RetryAfterUnknown},
		{f.PlanFault, &r.PlanFault},
		{f.Review.PassesBad, &r.PassesBad},
		{f.Review.FailsGood, &r.FailsGood},
	} {
		v, err := simulated.ParseRate(x.text)
		if err != nil {
			return r, usagef("%w", err)
		}
		*x.to = v
	}
	return r, nil
}
