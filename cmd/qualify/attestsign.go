package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/attest"
)

// signFlags are the flags of attest sign.
type signFlags struct {
	subjectFlags
	keys                                 []string
	policy, corpus, out, addTo, at, seal string
	days                                 int
	simulation, policyGiven              bool
}

func (a *app) attestSignCmd() *cobra.Command {
	var f signFlags
	c := &cobra.Command{
		Use:   "sign CAMPAIGN --key FILE",
		Short: "Judge a campaign by a policy and sign the verdict",
		Long: `Judge a stored campaign as qualify gate does, and sign what came of it: an
in-toto test result (PASSED, WARNED or FAILED) and a statement of all figures,
each in a DSSE envelope. The subjects are what is released: files (--artifact),
digests (--subject), or without either the binaries of the freeze under which
the campaign ran. Under a freeze every subject must be part of it.

PASSED is refused for evidence that is not measured; --simulation states the
result as one of a simulation, which no reader can take for the other.

--add-to FILE adds the signature of another key to an attestation, after the
verdict was computed here and is the same byte for byte.

Exit 0 when the attestation is written, whatever the verdict; 5 when it must not
be signed.`,
		Args: exactArgs("CAMPAIGN"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(f.keys) == 0 {
				return usagef("%sname the private key with --key; qualify attest keygen makes one%s", inCommand(c), seeHelp(c))
			}
			if f.addTo != "" {
				for _, name := range []string{"artifact", "subject", "simulation", "valid-days", "at"} {
					if c.Flags().Changed(name) {
						return usagef("%s--add-to signs what the file says; leave --%s out", inCommand(c), name)
					}
				}
			}
			f.policyGiven = c.Flags().Changed("policy")
			return attestFault(a.attestSign(c.Context(), args[0], f))
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.keys, "key", nil, "private key `FILE`; give it again for each signature")
	f.add(c, "release this `FILE`: a subject", "release `NAME=ALGORITHM:HEX`: a subject")
	policyFlag(c, &f.policy)
	campaignCorpusFlag(c, &f.corpus)
	fl.BoolVar(&f.simulation, "simulation", false, "state the result as one of a simulation")
	fl.IntVar(&f.days, "valid-days", 90, "the attestation expires after this many `DAYS`")
	fl.StringVar(&f.at, "at", "", "sign for this moment, `TIME` in RFC 3339, in place of now")
	fl.StringVarP(&f.out, "output", "o", "", "write to `FILE`, not to stdout")
	fl.StringVar(&f.addTo, "add-to", "", "add a signature to the attestation `FILE`")
	sealLogFlag(c, &f.seal)
	return c
}

func (a *app) attestSign(ctx context.Context, which string, f signFlags) error {
	if _, err := a.checkOutput(f.out, slices.Concat(f.keys, f.artifacts, []string{f.policy, f.seal, f.corpus})...); err != nil {
		return err
	}
	at, err := momentFlag("--at", f.at)
	if err != nil {
		return err
	}
	keys, warnings, err := readPrivateKeys(f.keys)
	if err != nil {
		return err
	}
	policy, err := readPolicy(f.policy)
	if err != nil {
		return err
	}
	doc, err := a.judged(ctx, which, policy, f.policyGiven, f.corpus)
	if err != nil {
		return err
	}
	if doc.Status == campaigns.StatusRunning && doc.Verdict.Verdict == gate.Inconclusive {
		return failf(exitRefused, "campaign %s is not finished; run it to its end, then sign", doc.Campaign.Name)
	}
	clock, err := a.recordClock(model.Evidence(doc.Evidence))
	if err != nil {
		return err
	}
	if f.at == "" {
		at = clock.now()
	}
	var made *attest.Attestation
	if f.addTo != "" {
		made, err = a.countersign(ctx, doc, keys, at, &f)
	} else {
		made, err = a.signVerdict(ctx, doc, keys, at, &f)
	}
	if err != nil {
		return err
	}
	data, err := made.Bytes()
	if err != nil {
		return err
	}
	sealed, err := a.sealAttestation(ctx, doc, data, keys, clock, f.seal)
	if err != nil {
		return err
	}
	if f.out != "" {
		err = writeFile(f.out, data)
	} else {
		_, err = a.out.Write(data)
	}
	if err != nil {
		return err
	}
	for _, w := range warnings {
		a.talkf("%s", w)
	}
	for _, k := range keys {
		a.talkf("%s, signed by %s", doc.Label, k.Public())
	}
	if !sealed {
		a.talkf("note: verdict and attestation are not in the seal log, which has no end of campaign %s or is that of a bundle", doc.Campaign.ID)
	}
	return nil
}

// momentFlag reads a time flag; "" is now. Attestations know whole seconds.
func momentFlag(name, text string) (time.Time, error) {
	if text == "" {
		return recordClock{}.now(), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Nanosecond() != 0 {
		return t, usagef("%s %q: write a time with whole seconds as in 2026-11-30T12:00:00Z", name, text)
	}
	return t.UTC(), nil
}

// judged is the verdict on a campaign of the store: by p if it was given, else
// by the policy that the campaign registered, and by p where it registered none.
func (a *app) judged(ctx context.Context, which string, p *gate.Policy, given bool, corpusName string) (*gate.Document, error) {
	var doc *gate.Document
	err := a.withStore(ctx, func(s store.Store) (err error) {
		if !given {
			if p, err = policyOfCampaign(ctx, s, which, p); err != nil {
				return err
			}
		}
		doc, err = a.judge(ctx, s, which, p, corpusName)
		return err
	})
	return doc, err
}

func (a *app) signVerdict(ctx context.Context, doc *gate.Document, keys []*attest.PrivateKey, at time.Time, f *signFlags) (*attest.Attestation, error) {
	if f.days < 1 || f.days > mostDays {
		return nil, usagef("--valid-days %d: want 1 to %d", f.days, mostDays)
	}
	m, err := a.manifestOf(ctx, doc, f.seal)
	if err != nil {
		return nil, err
	}
	subjects, err := f.read()
	if err != nil {
		return nil, err
	}
	if len(subjects) == 0 && m != nil {
		subjects = attest.Subjects(m)
	}
	if len(subjects) == 0 {
		return nil, usagef("the campaign ran without a freeze: name what is released with --artifact FILE or --subject NAME=ALGORITHM:HEX")
	}
	return attest.Sign(attest.Claim{
		Document: doc, Subjects: subjects, Created: at, Until: at.AddDate(0, 0, f.days), Simulation: f.simulation, Manifest: m,
	}, keys...)
}

// mostDays bounds --valid-days.
const mostDays = 3660

// countersign adds signatures to an attestation of the same verdict, on
// subjects that its freeze covers.
func (a *app) countersign(ctx context.Context, doc *gate.Document, keys []*attest.PrivateKey, now time.Time, f *signFlags) (*attest.Attestation, error) {
	data, _, err := readAtMost(f.addTo, mostAttestation)
	if err != nil {
		return nil, err
	}
	made, err := attest.Parse(data)
	if err != nil {
		return nil, usagef("%s: %w", f.addTo, err)
	}
	said, err := made.Inspect()
	if err != nil {
		return nil, usagef("%s: %w", f.addTo, err)
	}
	if err := attest.SameVerdict(said.Document, doc); err != nil {
		return nil, failf(exitRefused, "%s: %w; sign only what you computed, by the same --policy", f.addTo, err)
	}
	if !now.Before(said.Until) {
		return nil, failf(exitRefused, "%s: expired at %s; make a new one", f.addTo, said.Until.Format(time.RFC3339))
	}
	m, err := a.manifestOf(ctx, doc, f.seal)
	if err == nil && m != nil {
		err = attest.CheckFreeze(m, doc, said.Subjects)
	}
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if err := made.Countersign(k); err != nil {
			return nil, usagef("%s: %w", f.addTo, err)
		}
	}
	return made, nil
}

// sealAttestation appends verdict and attestation to the seal log, before the
// attestation leaves this process. A log without the end of the campaign takes
// neither: they would stand out of order in it. Nor does that of a bundle, which
// is never written to.
func (a *app) sealAttestation(ctx context.Context, doc *gate.Document, data []byte, keys []*attest.PrivateKey, clock recordClock, path string) (sealed bool, err error) {
	if u, err := parseStoreURL(a.storeURL); err != nil || u.bundle {
		return false, err
	}
	rows, err := a.readSealLog(ctx, path)
	if err != nil {
		return false, freezeFault(err)
	}
	canonical, err := engine.Canonical(doc)
	if err != nil {
		return false, err
	}
	v := freeze.VerdictEntry{
		Campaign: doc.Campaign.ID, Policy: doc.Policy.Digest, Verdict: string(doc.Verdict.Verdict), Document: "sha256:" + engine.Digest(canonical),
	}
	if ended, _ := inLog(rows, v); !ended {
		return false, nil
	}
	v.Moment = clock.moment()
	err = a.withStoreTo(ctx, changing, func(s store.Store) error {
		log := a.sealLog(s, path)
		_, _, err := freeze.Decide(ctx, log, func(rows []freeze.Row) (string, any, error) {
			if _, judged := inLog(rows, v); judged {
				return "", nil, nil
			}
			return freeze.KindVerdict, v, nil
		})
		if err != nil {
			return err
		}
		for _, k := range keys {
			e := freeze.AttestationEntry{Campaign: v.Campaign, Moment: v.Moment, Envelope: "sha256:" + engine.Digest(data), Key: k.Public().ID()}
			if _, err := freeze.Append(ctx, log, freeze.KindAttestation, e); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil, freezeFault(err)
}

// inLog looks for the end of a campaign, and for this verdict on it.
func inLog(rows []freeze.Row, want freeze.VerdictEntry) (ended, judged bool) {
	want.Moment = freeze.Moment{} // whenever it was given
	for _, r := range rows {
		switch r.Kind {
		case freeze.KindCampaignEnd:
			var e freeze.EndEntry
			ended = ended || json.Unmarshal(r.Body, &e) == nil && e.Campaign == want.Campaign
		case freeze.KindVerdict:
			var e freeze.VerdictEntry
			if json.Unmarshal(r.Body, &e) == nil {
				e.Moment = freeze.Moment{}
				judged = judged || e == want
			}
		}
	}
	return ended, judged
}
