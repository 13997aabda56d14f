package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// moduleFiles are frozen with every root that has them.
var moduleFiles = []string{"go.mod", "go.sum"}

// freezeInputs gathers what a new freeze covers.
func (a *app) freezeInputs(name string, f createFlags) (freeze.Inputs, error) {
	file, base, err := readCampaign(name)
	if err != nil {
		return freeze.Inputs{}, err
	}
	root := f.root
	if root == "" {
		root = filepath.Join(base, filepath.FromSlash(file.Freeze.Root))
	}
	policy, err := frozenPolicy(file.Policy, base, f.policy)
	if err != nil {
		return freeze.Inputs{}, fmt.Errorf("%s: %w", name, err)
	}
	src := freeze.Source{Campaign: name, Policy: policy, Exclude: slices.Concat(file.Freeze.Exclude, f.exclude)}
	if !strings.HasPrefix(name, builtinPrefix) {
		if src.Campaign, err = insideRoot(root, name, "campaign"); err != nil {
			return freeze.Inputs{}, err
		}
	}
	if !strings.HasPrefix(policy, policyPrefix) {
		if src.Policy, err = insideRoot(root, policy, "policy"); err != nil {
			return freeze.Inputs{}, err
		}
	}
	include := slices.Concat(file.Freeze.Include, f.include)
	for _, m := range moduleFiles {
		if fileExists(filepath.Join(root, m)) && !covered(include, m) {
			include = append(include, m)
		}
	}
	// What grows with each use of the freeze, or is about to hold it.
	u, err := parseStoreURL(a.storeURL)
	if err != nil {
		return freeze.Inputs{}, err
	}
	for _, out := range []struct{ path, more string }{{f.sealLog, ""}, {f.out, ""}, {u.path, "*"}} {
		if out.path == "" {
			continue
		}
		if rel, err := insideRoot(root, out.path, "file"); err == nil && covered(include, rel) {
			src.Exclude = append(src.Exclude, rootPattern(rel)+out.more)
		}
	}
	in, err := a.presentInputs(file, base, policy, src)
	if err != nil {
		return freeze.Inputs{}, err
	}
	in.Root, in.Include = root, include
	for _, b := range f.binaries {
		if err := addBinary(&in, b); err != nil {
			return freeze.Inputs{}, usagef("--binary %w; build it first, or name the file that go build made", err)
		}
	}
	for i, b := range file.Freeze.Binaries {
		if err := addBinary(&in, filepath.Join(root, filepath.FromSlash(b))); err != nil {
			return freeze.Inputs{}, usagef("%s: freeze.binaries.%d: %w; build it first, or leave it out", name, i, err)
		}
	}
	return in, nil
}

// addBinary allows another binary to run. The error names the file.
func addBinary(in *freeze.Inputs, path string) error {
	b, err := freeze.ReadBinary(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	if err != nil {
		return err
	}
	in.Binaries = append(in.Binaries, b)
	return nil
}

// frozenPolicy is the policy to freeze: the campaign's, else that of --policy,
// else the default. Two that differ are refused, since the campaign is judged by
// its own.
func frozenPolicy(named, base, flag string) (string, error) {
	if named == "" {
		return cmp.Or(flag, policyPrefix+gate.PolicyDefault), nil
	}
	place := policyPlace(named, base)
	if flag == "" {
		return place, nil
	}
	own, err := readPolicy(place)
	if err != nil {
		return "", err
	}
	other, err := readPolicy(flag)
	if err != nil {
		return "", err
	}
	if own.Digest() != other.Digest() {
		return "", usagef("the campaign names policy %s and --policy %s is another; leave the flag out", named, flag)
	}
	return place, nil
}

// covered reports whether an included path covers a file.
func covered(include []string, file string) bool {
	return slices.ContainsFunc(include, func(p string) bool {
		p = path.Clean(p)
		return p == "." || p == file || strings.HasPrefix(file, p+"/")
	})
}

// rootPattern is the pattern that leaves out this path and no other.
func rootPattern(rel string) string {
	r := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	return "/" + r.Replace(rel)
}

// presentInputs reads everything but the files, as it is now, for a campaign.
func (a *app) presentInputs(file *campaigns.File, base, policyName string, src freeze.Source) (freeze.Inputs, error) {
	in := freeze.Inputs{Name: file.Name, Source: src, Prompts: map[string]string{}, Prices: map[string]string{}, Models: map[string]string{}}
	running, modules, err := freeze.Running()
	if err != nil {
		return in, err
	}
	in.Binaries, in.Modules = []freeze.Binary{running}, modules
	for _, m := range knownModes() {
		for name, text := range m.Prompts() {
			in.Prompts[m.Name()+"/"+name] = "sha256:" + engine.Digest([]byte(text))
		}
	}
	prices, err := model.ParsePrices(file.Prices)
	if err != nil {
		return in, usagef("prices: %w", err)
	}
	if err := flatten(in.Prices, prices); err != nil {
		return in, err
	}
	if err := flatten(in.Models, map[string]any{
		"provider": file.Model.Provider, "name": file.Model.Name, "params": file.Model.Params, "simulated": file.Model.Simulated,
	}); err != nil {
		return in, err
	}
	if in.Corpus, err = a.frozenCorpus(file.Corpus, base); err != nil {
		return in, err
	}
	if in.Evaluator, err = frozenEvaluator(); err != nil {
		return in, err
	}
	policy, err := readPolicy(policyName)
	if err != nil {
		return in, err
	}
	in.Policy = map[string]string{"digest": policy.Digest()}
	in.Plan, err = a.frozenPlan(file, base)
	return in, err
}

// frozenPlan is the digest of the plan by which the campaign file runs the
// holdout, as it stands and with this build; nil where it selects no holdout
// case.
func (a *app) frozenPlan(file *campaigns.File, base string) (map[string]string, error) {
	cs, err := a.loadCases(file.Corpus, base)
	if err != nil {
		return nil, err
	}
	include := file.Cases.Include
	if len(include) == 0 {
		include = []string{"*"}
	}
	selected, err := cs.corpus.Select(corpus.SplitHoldout, include, file.Cases.Exclude)
	if err != nil || len(selected) == 0 {
		return nil, nil //nolint:nilerr // patterns that no holdout case matches select none
	}
	build, err := readBuild()
	if err != nil {
		return nil, err
	}
	plan, err := campaigns.Resolve(file, campaigns.ResolveInput{
		Path: file.Name, Corpus: cs.corpus, Modes: knownModes(), Providers: knownProviders(), CodeVersion: build.Code(),
		Override: campaigns.Override{Split: corpus.SplitHoldout}, Policy: policyReader(base), Holdout: true,
	})
	if err != nil {
		return nil, usagef("the plan of the holdout: %w", err)
	}
	return map[string]string{corpus.SplitHoldout: plan.PlanDigest}, nil
}

// frozenCorpus digests each split of a corpus apart, with its gold, and the file
// of a sealed one with what its audit found.
func (a *app) frozenCorpus(name, base string) (freeze.Corpus, error) {
	cs, err := a.loadCases(name, base)
	if err != nil {
		return freeze.Corpus{Name: name}, err
	}
	out, err := corpusDigests(name, cs)
	if err != nil || cs.sealed == nil {
		return out, err
	}
	out.Sealed = map[string]string{}
	err = flatten(out.Sealed, map[string]any{"file": cs.sealed.digest, "lint": cs.sealed.Manifest.Lint})
	return out, err
}

// corpusDigests digests each split of loaded cases apart, with their gold.
func corpusDigests(name string, cs *cases) (freeze.Corpus, error) {
	out := freeze.Corpus{Name: name, Splits: map[string]freeze.Split{}}
	var err error
	for _, c := range cs.corpus.Cases {
		s, ok := out.Splits[c.Split]
		if !ok {
			s = freeze.Split{Cases: map[string]string{}, Gold: map[string]string{}}
			if s.Digest, err = cs.corpus.SplitDigest(c.Split); err != nil {
				return out, err
			}
			out.Splits[c.Split] = s
		}
		if s.Cases[c.ID], err = c.Digest(); err != nil {
			return out, err
		}
		if g, ok := cs.gold.Get(c.ID); ok {
			b, err := engine.Canonical(g)
			if err != nil {
				return out, fmt.Errorf("gold of case %s: %w", c.ID, err)
			}
			s.Gold[c.ID] = "sha256:" + engine.Digest(b)
		}
	}
	return out, nil
}

// frozenEvaluator is what names the evaluator: the code it was built from, and
// how each metric is read.
func frozenEvaluator() (map[string]string, error) {
	build, err := readBuild()
	if err != nil {
		return nil, err
	}
	out := map[string]string{"version": version, "code": build.Code()}
	if build.Binary != "" {
		out["code"] = "see binary" // nothing else names the code; each allowed binary is its own
	}
	for _, m := range evaluator.Metrics() {
		b, err := engine.Canonical(m)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", m.Name, err)
		}
		out["metric "+m.Name] = "sha256:" + engine.Digest(b)
	}
	return out, nil
}

// flatten writes the scalars of a value by their paths, as their JSON; texts
// without quotes.
func flatten(out map[string]string, v any) error {
	b, err := engine.Canonical(v)
	if err != nil {
		return err
	}
	return flattenJSON(out, "", b)
}

func flattenJSON(out map[string]string, at string, raw json.RawMessage) error {
	sub := func(name string) string { return strings.TrimPrefix(at+"/"+name, "/") }
	switch raw[0] {
	case '{':
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		for k, v := range m {
			if err := flattenJSON(out, sub(k), v); err != nil {
				return err
			}
		}
	case '[':
		var l []json.RawMessage
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		for i, v := range l {
			if err := flattenJSON(out, sub(strconv.Itoa(i)), v); err != nil {
				return err
			}
		}
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		out[at] = s
	default:
		out[at] = string(raw)
	}
	return nil
}

// presentInputsOf gathers what a frozen manifest covers as it is now, from the
// sources that the manifest names, in the folder root.
func (a *app) presentInputsOf(m *freeze.Manifest, root string) (freeze.Inputs, error) {
	place := func(name, builtin string) string {
		if strings.HasPrefix(name, builtin) {
			return name
		}
		return filepath.Join(root, filepath.FromSlash(name))
	}
	name := place(m.Source.Campaign, builtinPrefix)
	if _, err := os.Stat(name); err != nil && !strings.HasPrefix(name, builtinPrefix) {
		return freeze.Inputs{}, usagef("campaign %s of the freeze: %w; give the frozen folder with --root", name, cause(err))
	}
	file, base, err := readCampaign(name)
	if err != nil {
		return freeze.Inputs{}, err
	}
	policy := place(m.Source.Policy, policyPrefix)
	if file.Policy != "" {
		policy = policyPlace(file.Policy, base) // which may name another by now
	}
	in, err := a.presentInputs(file, base, policy, m.Source)
	if err != nil {
		return freeze.Inputs{}, err
	}
	in.Root, in.Include = root, m.Includes()
	return in, nil
}
