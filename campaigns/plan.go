package campaigns

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/modes"
)

// Plan is a resolved campaign: everything that decides what a trial contains.
// Its canonical JSON is hashed into the plan digest; with the code version
// added it is the campaign's identity (DESIGN §7). Parallelism, store,
// ceilings and output are not part of it.
type Plan struct {
	Schema       string            `json:"schema"`
	Name         string            `json:"name"`
	Seed         uint64            `json:"seed"`
	Trials       int               `json:"trials"`
	Order        string            `json:"order,omitempty"` // "" for rounds
	Filter       CaseFilter        `json:"cases"`
	CorpusDigest string            `json:"corpus"` // of the split
	Cases        []PlanCase        `json:"case_digests"`
	Arms         []Arm             `json:"arms"`
	UnderTest    []string          `json:"under_test"`
	Prompts      map[string]string `json:"prompts"` // "mode/name" to digest
	Provider     string            `json:"provider"`
	Evidence     string            `json:"evidence"`
	Model        string            `json:"model"`
	Params       map[string]string `json:"params"`
	Simulated    *SimulatedFile    `json:"simulated,omitempty"`
	PricesDigest string            `json:"prices"`
	Clock        string            `json:"clock"`
	Infra        []string          `json:"infrastructure_faults"`
	Controls     bool              `json:"controls"`
	Policy       *RegisteredPolicy `json:"policy,omitempty"` // nil where the file names none
	Hypotheses   []Hypothesis      `json:"hypotheses,omitempty"`

	PlanDigest string `json:"-"` // sha256:… of the JSON above
	// Registration is the digest of the registration record.
	Registration string       `json:"-"`
	ID           string       `json:"-"` // c_… of plan digest and code version
	Canonical    []byte       `json:"-"`
	Prices       model.Prices `json:"-"`
	MaxOutput    int          `json:"-"`
	Ceiling      string       `json:"-"` // shared simulated ceiling, "" for the campaign's own
	CapMicros    int64        `json:"-"` // ceiling_usd
	Parallel     int          `json:"-"` // as the file proposes, at least 1
	Funds        store.Funds  `json:"-"`

	cases        []*corpus.Case
	modes        map[string]modes.Mode
	registration []byte // the record; nil in a reopened plan
	code         string // version of the code; "" in a reopened plan
}

// PlanCase pins one case.
type PlanCase struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

// Arm is a resolved arm.
type Arm struct {
	Name        string            `json:"name"`
	Mode        string            `json:"mode"`
	Idempotency bool              `json:"idempotency"`
	Options     map[string]string `json:"options"`
	Role        string            `json:"role"`
}

// controlPrefix marks control arms in trial keys.
const controlPrefix = "control-"

// ResolveInput is what Resolve needs beside the file.
type ResolveInput struct {
	Path        string // of the file, for errors
	Corpus      *corpus.Corpus
	Modes       map[string]modes.Mode
	Providers   map[string]model.Evidence // known providers and the evidence their runs give
	CodeVersion string
	Override    Override
	// Holdout allows cases of the holdout: the caller keeps it closed but under a
	// freeze. Without it they are ErrHoldout.
	Holdout bool
	// Policy reads the policy that the file names and plans its verdict for arms,
	// cases and trials of the campaign; it is not called where the file names none.
	Policy func(name string, p *Plan) (*RegisteredPolicy, error)
}

// Override narrows a file from the command line; zero values keep the file's.
type Override struct {
	Modes  []string // keep arms of these modes
	Cases  []string // globs over case ids
	Split  string
	Trials int
}

// Resolve checks a file against corpus and modes and fixes the plan. Faults
// are *corpus.FileError, those of hypotheses corpus.Errors.
func Resolve(f *File, in ResolveInput) (*Plan, error) {
	fail := func(format string, args ...any) error {
		return &corpus.FileError{File: in.Path, Text: fmt.Sprintf(format, args...)}
	}
	evidence, ok := in.Providers[f.Model.Provider]
	if !ok {
		return nil, fail("model.provider: %q is unknown; this build has %s", f.Model.Provider, strings.Join(sortedKeys(in.Providers), ", "))
	}
	p := &Plan{
		Schema: SchemaCampaign, Name: f.Name, Seed: f.Seed, Trials: f.Trials, Filter: f.Cases,
		UnderTest: slices.Clone(f.UnderTest), Prompts: map[string]string{}, Provider: f.Model.Provider,
		Evidence: string(evidence), Model: f.Model.Name, Params: f.Model.Params, Simulated: f.Model.Simulated,
		Clock: f.Clock, Infra: f.Infra, Controls: f.Controls == nil || *f.Controls,
		Ceiling: f.Ceiling, Parallel: max(f.Parallel, 1), modes: map[string]modes.Mode{},
		Funds: fundsOf(evidence),
	}
	if p.Clock == "" {
		p.Clock = ClockVirtual
	}
	if f.Order == OrderFamilies {
		p.Order = OrderFamilies
	}
	if p.Clock == ClockVirtual && p.Funds == store.FundsReal {
		return nil, fail("clock: virtual time is for simulated models; use clock: wall with %s", f.Model.Provider)
	}
	slices.Sort(p.UnderTest)
	if in.Override.Trials > 0 {
		p.Trials = in.Override.Trials
	}
	if in.Override.Split != "" {
		p.Filter.Split = in.Override.Split
	}
	if len(in.Override.Cases) > 0 {
		p.Filter.Include = in.Override.Cases
	}
	if err := p.resolveMoney(f); err != nil {
		return nil, fail("%v", err)
	}
	if err := p.resolveArms(f, in, fail); err != nil {
		return nil, err
	}
	if err := p.resolveCases(in.Corpus, in.Holdout, fail); err != nil {
		return nil, err
	}
	if err := p.checkRooms(); err != nil {
		return nil, fail("%v", err)
	}
	if err := p.resolvePolicy(f.Policy, in); err != nil {
		return nil, fail("policy %s: %v", f.Policy, err)
	}
	if err := p.resolveHypotheses(f, in.Path); err != nil {
		return nil, err
	}
	if err := p.identify(in.CodeVersion); err != nil {
		return nil, err
	}
	if err := p.register(); err != nil {
		return nil, fail("%v", err)
	}
	return p, nil
}

// fundsOf says which money a campaign draws on: simulated where no call can
// cost anything (simulated, scripted, played back), real in every other case.
func fundsOf(e model.Evidence) store.Funds {
	switch e {
	case model.Simulated, model.Deterministic, model.Recorded:
		return store.FundsSimulated
	case model.Measured:
	}
	return store.FundsReal
}

// checkRooms builds every arm's machine for every case, so that an option or a
// room that a mode refuses is found before money is spent.
func (p *Plan) checkRooms() error {
	for _, a := range p.Arms {
		for _, c := range p.cases {
			if _, err := p.Machine(Seat{Case: c, Arm: a}); err != nil {
				return fmt.Errorf("arm %s, case %s: %w", a.Name, c.ID, err)
			}
		}
	}
	return nil
}

func (p *Plan) resolveMoney(f *File) error {
	var err error
	if p.CapMicros, err = budget.ParseUSD(f.CeilUSD); err != nil {
		return fmt.Errorf("ceiling_usd: %w", err)
	}
	if p.Prices, err = model.ParsePrices(f.Prices); err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	if p.PricesDigest, err = p.Prices.Digest(); err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	if p.MaxOutput, err = strconv.Atoi(f.Model.Params["max_output_tokens"]); err != nil {
		return fmt.Errorf("model.params.max_output_tokens: %w", err)
	}
	return nil
}

func (p *Plan) resolveArms(f *File, in ResolveInput, fail func(string, ...any) error) error {
	for i, a := range f.Arms {
		m, ok := in.Modes[a.Mode]
		if !ok || isControl(a.Mode) {
			return fail("arms.%d.mode: %q is unknown; this build has %s", i, a.Mode, strings.Join(armModes(in.Modes), ", "))
		}
		if len(in.Override.Modes) > 0 && !slices.Contains(in.Override.Modes, a.Mode) {
			continue
		}
		arm := Arm{Name: a.Name, Mode: a.Mode, Options: a.Options, Role: a.Role, Idempotency: a.Idempotency == "on"}
		if a.Idempotency == "" {
			arm.Idempotency = a.Mode != "legacy"
		}
		if arm.Options == nil {
			arm.Options = map[string]string{}
		}
		p.Arms = append(p.Arms, arm)
		p.use(m)
	}
	for _, o := range in.Override.Modes {
		if _, ok := in.Modes[o]; !ok || isControl(o) {
			return fail("--mode: %q is unknown; this build has %s", o, strings.Join(armModes(in.Modes), ", "))
		}
	}
	if len(p.matched()) == 0 {
		return fail("no arm is left to run; check --mode")
	}
	if p.Controls {
		for _, name := range []string{modes.NameDoNothing, modes.NameClaimOnly} {
			m, ok := in.Modes[name]
			if !ok {
				return fail("control %q is not in this build", name)
			}
			p.use(m)
		}
	}
	return p.checkUnderTest(fail)
}

// checkUnderTest refuses differences between matched arms that the file does
// not declare as under test, naming both values (Q3).
func (p *Plan) checkUnderTest(fail func(string, ...any) error) error {
	arms := p.matched()
	for _, b := range arms[1:] {
		a := arms[0]
		for _, d := range []struct{ what, av, bv string }{
			{"mode", a.Mode, b.Mode},
			{"idempotency", onOff(a.Idempotency), onOff(b.Idempotency)},
			{"options", optionText(a.Options), optionText(b.Options)},
		} {
			if d.av != d.bv && !slices.Contains(p.UnderTest, d.what) {
				return fail("arms %s and %s differ in %s (%s and %s), which under_test does not name", a.Name, b.Name, d.what, d.av, d.bv)
			}
		}
	}
	return nil
}

// ErrHoldout refuses holdout cases: they open only under a freeze (Q4.3).
var ErrHoldout = errors.New("holdout cases are refused without a freeze")

func (p *Plan) resolveCases(c *corpus.Corpus, holdout bool, fail func(string, ...any) error) error {
	if p.Filter.Split == "" {
		p.Filter.Split = corpus.SplitDev
	}
	if len(p.Filter.Include) == 0 {
		p.Filter.Include = []string{"*"}
	}
	if have := splitsOf(c); !slices.Contains(have, p.Filter.Split) {
		return fail("cases: the corpus has no split %q; it has %s", p.Filter.Split, strings.Join(have, " and "))
	}
	sel, err := c.Select(p.Filter.Split, p.Filter.Include, p.Filter.Exclude)
	if err != nil {
		return fail("cases: %v", err)
	}
	for _, cs := range sel {
		if cs.Split == corpus.SplitHoldout && !holdout {
			return ErrHoldout
		}
	}
	if len(sel) == 0 {
		return fail("cases: no case of split %q matches; see `qualify corpus list`", p.Filter.Split)
	}
	p.cases = sel
	for _, cs := range sel {
		d, err := cs.Digest()
		if err != nil {
			return fail("case %s: %v", cs.ID, err)
		}
		p.Cases = append(p.Cases, PlanCase{ID: cs.ID, Digest: d})
	}
	// Of the split alone: a holdout that grows is no other dev campaign (Q4).
	if p.CorpusDigest, err = c.SplitDigest(p.Filter.Split); err != nil {
		return fail("corpus: %v", err)
	}
	return nil
}

// splitsOf lists the splits that the cases of a corpus are in, sorted.
func splitsOf(c *corpus.Corpus) []string {
	var out []string
	for _, k := range c.Cases {
		out = append(out, k.Split)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *Plan) identify(codeVersion string) error {
	b, err := engine.Canonical(p)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	p.Canonical = b
	p.PlanDigest = "sha256:" + engine.Digest(b)
	p.code = codeVersion
	p.ID = planID(p.PlanDigest, codeVersion)
	return nil
}

func (p *Plan) use(m modes.Mode) {
	p.modes[m.Name()] = m
	for name, text := range m.Prompts() {
		p.Prompts[m.Name()+"/"+name] = "sha256:" + engine.Digest([]byte(text))
	}
}

// SelectedCases are the cases of the plan in corpus order.
func (p *Plan) SelectedCases() []*corpus.Case { return slices.Clone(p.cases) }

// Holdout reports whether the plan runs holdout cases.
func (p *Plan) Holdout() bool { return p.Filter.Split == corpus.SplitHoldout }

func (p *Plan) matched() []Arm {
	return slices.DeleteFunc(slices.Clone(p.Arms), func(a Arm) bool { return a.Role == RoleAblation })
}

// Triple is one case and trial index in all arms that share an allotment: the
// matched arms together, or one ablation alone.
type Triple struct {
	Order int
	Case  *corpus.Case
	Index int
	Arms  []Arm
}

// ID names the triple inside its campaign.
func (t Triple) ID() string {
	id := t.Case.ID + "/" + strconv.Itoa(t.Index)
	if len(t.Arms) > 0 && t.Arms[0].Role == RoleAblation {
		id += "/" + t.Arms[0].Name
	}
	return id
}

// Sum is the money the triple's allotment holds: the trial budgets together.
func (t Triple) Sum() int64 { return int64(len(t.Arms)) * int64(t.Case.Room.Limits.Budget) }

// Schedule is the seeded, recorded order (Q3): trials outermost, cases
// shuffled within a trial index, arms shuffled within a triple; after each
// triple its ablations. With OrderFamilies that is the order within a family,
// and families follow each other by name.
func (p *Plan) Schedule() []Triple {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7175616c696679))
	matched := p.matched()
	var out []Triple
	add := func(c *corpus.Case, index int, arms []Arm) {
		out = append(out, Triple{Order: len(out), Case: c, Index: index, Arms: arms})
	}
	for _, block := range p.blocks() {
		for index := range p.Trials {
			for _, ci := range rng.Perm(len(block)) {
				arms := make([]Arm, len(matched))
				for i, j := range rng.Perm(len(matched)) {
					arms[i] = matched[j]
				}
				add(block[ci], index, arms)
				for _, a := range p.Arms {
					if a.Role == RoleAblation {
						add(block[ci], index, []Arm{a})
					}
				}
			}
		}
	}
	return out
}

// blocks are the cases that are scheduled together: all, or a family each.
func (p *Plan) blocks() [][]*corpus.Case {
	if p.Order != OrderFamilies {
		return [][]*corpus.Case{p.cases}
	}
	of := map[string][]*corpus.Case{}
	for _, c := range p.cases {
		of[c.Family] = append(of[c.Family], c)
	}
	var out [][]*corpus.Case
	for _, family := range slices.Sorted(maps.Keys(of)) {
		out = append(out, of[family])
	}
	return out
}

// WorldSeed derives a trial's world seed from (campaign seed, case, trial): the
// same in all arms (DESIGN §8).
func WorldSeed(seed uint64, caseID string, trial int) uint64 {
	return drawSeed("world", strconv.FormatUint(seed, 10), caseID, strconv.Itoa(trial))
}

// drawSeed is 64 bits of the digest of parts.
func drawSeed(parts ...string) uint64 {
	b, err := hex.DecodeString(engine.StableID("", parts...)[:16])
	if err != nil {
		panic("stable ids are hex: " + err.Error())
	}
	return binary.BigEndian.Uint64(b)
}

// TrialKey is case/arm/trial: the room's name in traces, operation ids and
// draws.
func TrialKey(caseID, arm string, trial int) string {
	return caseID + "/" + arm + "/" + strconv.Itoa(trial)
}

func sortedKeys[V any](m map[string]V) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

func isControl(mode string) bool { return mode == modes.NameDoNothing || mode == modes.NameClaimOnly }

func armModes(ms map[string]modes.Mode) []string {
	return slices.DeleteFunc(sortedKeys(ms), isControl)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func optionText(o map[string]string) string {
	parts := make([]string, 0, len(o))
	for _, k := range sortedKeys(o) {
		parts = append(parts, k+"="+o[k])
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " ")
}
