package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/reports"
	"github.com/agentrooms/qualify/reports/attest"
)

// trustFlags say whose signatures an attestation needs, at what moment, and on
// what.
type trustFlags struct {
	subjectFlags
	keys       []string
	signatures int
	at         string
	unknown    bool
}

// attestVerifyFlags are the flags of attest verify.
type attestVerifyFlags struct {
	trustFlags
	freeze, policy, corpus, seal string
	traces, campaign             string
	bundle                       string // computes the verdict anew
	passed, recompute, json      bool
}

func (a *app) attestVerifyCmd() *cobra.Command {
	var f attestVerifyFlags
	c := &cobra.Command{
		Use:   "verify FILE [BUNDLE] --key PUBLIC",
		Short: "Verify an attestation, offline; with a bundle, or --recompute, down to the traces",
		Long: `Verify an attestation with the public keys of those who must have signed it.
Nothing else is needed and nothing is fetched. Every bit of the file counts: it
must be the canonical encoding of what it says.

--artifact and --subject: what is released must be among the subjects. --freeze
FILE: the manifest must be the one the verdict names and hold every subject.

BUNDLE, a file of qualify report bundle: everything in it must hold, as qualify
report verify has it; the verdict computed from it must be the attested one byte
for byte, its seal log must go on from the attested head, and the freeze in it
must hold every subject. Nothing is taken as attested then.

--recompute without a bundle: the verdict, computed anew from the traces of the campaign in the
store (--store), must be the same byte for byte; a policy that does not ship
with this build is named by --policy. Without a store, --traces FOLDER with
--campaign FILE computes it from what qualify trace export wrote: every figure
and rule, and the checks of corpus, controls and arms. How the campaign ended,
its account, and the checks of freeze, seal log and budget are then taken as
attested, because traces cannot show them.

Exit 0 when all that was asked for holds, whatever the verdict (--require-passed
asks for PASSED by measured evidence too), 1 when something does not, 3 for keys
and files that cannot be read.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactArgs("FILE", "BUNDLE")(c, args)
			}
			return exactArgs("FILE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(f.keys) == 0 {
				return usagef("%sname the public key with --key%s", inCommand(c), seeHelp(c))
			}
			if len(args) == 2 {
				f.bundle = args[1]
			}
			if err := f.consistent(c); err != nil {
				return err
			}
			return a.attestVerify(c.Context(), args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.keys, "key", nil, "public key `FILE`; give it again for each key")
	fl.IntVar(&f.signatures, "signatures", 0, "how many of the keys must have signed, `N`; 0 is all of them")
	fl.BoolVar(&f.unknown, "allow-unknown-signatures", false, "let signatures by other keys stand; they are not checked")
	fl.StringVar(&f.at, "at", "", "verify for this moment, `TIME` in RFC 3339, in place of now")
	f.add(c, "this `FILE` must be a subject", "`NAME=ALGORITHM:HEX` must be a subject; the name does not count")
	fl.StringVar(&f.freeze, "freeze", "", "the verdict must be under the freeze of this manifest `FILE`, or id of the seal log")
	fl.BoolVar(&f.passed, "require-passed", false, "the result must be PASSED, by measured evidence")
	fl.BoolVar(&f.recompute, "recompute", false, "compute the verdict anew from the traces in the store")
	fl.StringVar(&f.policy, "policy", "", "with --recompute: policy `FILE` or builtin:NAME that judged")
	campaignCorpusFlag(c, &f.corpus)
	fl.StringVar(&f.traces, "traces", "", "compute the verdict anew from the trace files in `FOLDER`")
	fl.StringVar(&f.campaign, "campaign", "", "with --traces: campaign `FILE` or builtin:NAME that ran")
	sealLogReadFlag(c, &f.seal)
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	return c
}

// consistent refuses flags that say nothing together.
func (f *attestVerifyFlags) consistent(c *cobra.Command) error {
	store := f.recompute && f.bundle == ""
	where := map[string]bool{
		"corpus": store, "store": store || f.freeze != "", "seal-log": f.freeze != "", "campaign": f.traces != "", "policy": store || f.traces != "",
	}
	with := map[string]string{"corpus": "recompute", "store": "recompute", "seal-log": "freeze", "campaign": "traces", "policy": "recompute"}
	for _, name := range slices.Sorted(maps.Keys(where)) {
		if c.Flags().Changed(name) && !where[name] {
			return usagef("%s--%s goes with --%s%s", inCommand(c), name, with[name], seeHelp(c))
		}
	}
	switch {
	case f.traces != "" && f.bundle != "":
		return usagef("%sa bundle holds traces; leave --traces out", inCommand(c))
	case f.traces != "" && f.recompute:
		return usagef("%s--recompute reads the store, --traces files; give one of them", inCommand(c))
	case f.traces != "" && f.campaign == "":
		return usagef("%s--traces needs the campaign file that ran, --campaign FILE", inCommand(c))
	}
	return nil
}

// attestationDoc is attest verify --json. What an attestation says is told only
// after its signatures and statements were found right; all of it is empty
// before.
type attestationDoc struct {
	Schema        schemaRef         `json:"schema"`
	OK            bool              `json:"ok"`
	Fault         string            `json:"fault"`
	File          string            `json:"file"`
	Keys          []string          `json:"keys"`
	Result        attest.Result     `json:"result"`
	PredicateType string            `json:"predicate_type"`
	Verdict       gate.Outcome      `json:"verdict"`
	Label         string            `json:"label"`
	Evidence      string            `json:"evidence"`
	Campaign      string            `json:"campaign"`
	Freeze        string            `json:"freeze"`
	Openings      *int              `json:"holdout_openings"` // null without a freeze
	Log           *gate.Log         `json:"log"`              // which counts them; null without a freeze
	Created       string            `json:"created"`
	ValidUntil    string            `json:"valid_until"`
	Subjects      []attest.Resource `json:"subjects"`
	Configuration []attest.Resource `json:"configuration"`
	Recomputed    string            `json:"recomputed"` // from what the verdict was computed again: bundle, store, traces, or "" for not
	// NotCompared are the parts of the bundle that another version wrote and this
	// one cannot compute again: anything may stand in them.
	NotCompared []string `json:"not_compared"`

	holdout string // freeze and openings in words
}

// Values of attestationDoc.Recomputed.
const (
	fromBundle = "bundle"
	fromStore  = "store"
	fromTraces = "traces"
)

// attestRequest is what verifying needs, read before anything is verified.
type attestRequest struct {
	data     []byte
	trust    attest.Trust
	at       time.Time
	subjects []attest.Resource
}

// request reads the keys and hashes the subjects; the attestation itself is
// still to be read.
func (f *trustFlags) request() (q attestRequest, err error) {
	if q.at, err = momentFlag("--at", f.at); err != nil {
		return q, err
	}
	if q.trust.Keys, err = readPublicKeys(f.keys); err != nil {
		return q, err
	}
	q.trust.Threshold, q.trust.AllowUnknown = f.signatures, f.unknown
	if f.signatures == 0 {
		q.trust.Threshold = len(f.keys) // a key given twice is none more: Check refuses it
	}
	if err := q.trust.Check(); err != nil {
		return q, usagef("--signatures: %w; give each key once, and N from 1 to their number", err)
	}
	q.subjects, err = f.read()
	return q, err
}

// verify checks signatures, statements, time and subjects. With an error what
// the attestation says is given as far as it holds; nil for nothing. Whatever
// does not hold is a finding.
func (q *attestRequest) verify() (*attest.Verified, error) {
	att, err := attest.Parse(q.data)
	if err != nil {
		return nil, found("%w", err)
	}
	v, err := att.Verify(q.trust, q.at)
	if err != nil {
		return v, found("%w", err)
	}
	for _, want := range q.subjects {
		if !hasSubject(v.Subjects, want) {
			return v, found("%s is none of the subjects: it is not what was attested; take the file that was, or sign for this one", digestsOf(want))
		}
	}
	return v, nil
}

func (a *app) attestVerify(ctx context.Context, path string, f attestVerifyFlags) error {
	q, err := f.request()
	if err != nil {
		return err
	}
	if q.data, _, err = readAtMost(path, mostAttestation); err != nil {
		return err
	}
	doc := attestationDoc{
		Schema: schemaRef{"qualify.attestation", 1}, File: path, Keys: []string{}, Subjects: []attest.Resource{}, Configuration: []attest.Resource{},
		NotCompared: []string{},
	}
	err = a.verifyAttestation(ctx, &doc, q, &f)
	var finding *attestFinding
	switch {
	case errors.As(err, &finding):
		doc.Fault = err.Error()
	case err != nil:
		return err
	}
	doc.OK = err == nil
	if f.json {
		err = a.printJSON(doc)
	} else {
		a.printAttestation(&doc)
		err = nil
	}
	if err == nil && !doc.OK {
		err = verdict(exitFail)
	}
	return err
}

// attestFinding is an error that is a result of verifying: exit 1.
type attestFinding struct{ err error }

func (f *attestFinding) Error() string { return f.err.Error() }
func (f *attestFinding) Unwrap() error { return f.err }

func found(format string, args ...any) error { return &attestFinding{fmt.Errorf(format, args...)} }

// verifyAttestation fills in what the attestation says as far as it holds.
func (a *app) verifyAttestation(ctx context.Context, doc *attestationDoc, q attestRequest, f *attestVerifyFlags) error {
	v, err := q.verify()
	if v != nil {
		doc.tell(v)
	}
	if err != nil {
		return err
	}
	if f.freeze != "" {
		frozen, _, err := a.findFreeze(ctx, f.freeze, f.seal)
		if err != nil {
			return freezeFault(err)
		}
		if err := attest.CheckFreeze(frozen.Manifest, v.Document, v.Subjects); err != nil {
			return found("%w", err)
		}
	}
	if f.passed && (v.Result != attest.Passed || v.PredicateType != attest.PredicateTestResult) {
		return found("the result is %s (%s), not PASSED by measured evidence", v.Result, v.Document.Label)
	}
	if f.bundle != "" {
		b, err := a.recomputeBundle(ctx, v, f.bundle)
		if err != nil {
			return err
		}
		doc.Recomputed = fromBundle
		if b.skipped() {
			doc.NotCompared = append(doc.NotCompared, partReport)
		}
		return nil
	}
	if !f.recompute && f.traces == "" {
		return nil
	}
	if err := a.recompute(ctx, v.Document, f); err != nil {
		return err
	}
	doc.Recomputed = fromStore
	if f.traces != "" {
		doc.Recomputed = fromTraces
	}
	return nil
}

// hasSubject reports a subject with every digest of want, whatever its name:
// in-toto matches by digest only.
func hasSubject(subjects []attest.Resource, want attest.Resource) bool {
	return slices.ContainsFunc(subjects, func(s attest.Resource) bool {
		for alg, d := range want.Digest {
			if s.Digest[alg] != d {
				return false
			}
		}
		return len(want.Digest) > 0
	})
}

func digestsOf(r attest.Resource) string {
	out := []string{}
	for _, alg := range slices.Sorted(maps.Keys(r.Digest)) {
		out = append(out, alg+":"+r.Digest[alg])
	}
	return r.Name + " " + strings.Join(out, " ")
}

func (d *attestationDoc) tell(v *attest.Verified) {
	d.Keys, d.Result, d.PredicateType, d.Subjects, d.Configuration = v.Keys, v.Result, v.PredicateType, v.Subjects, v.Configuration
	d.Verdict, d.Label, d.Evidence = v.Document.Verdict.Verdict, v.Document.Label, v.Document.Evidence
	d.Campaign, d.Freeze = v.Document.Campaign.ID, v.Document.Freeze.ID
	d.Openings, d.Log, d.holdout = v.Document.Freeze.Openings, v.Document.Freeze.Log, "freeze: none"
	if d.Freeze != "" {
		d.holdout = reports.FreezeLine(v.Document)
	}
	d.Created, d.ValidUntil = v.Created.Format(time.RFC3339), v.Until.Format(time.RFC3339)
}

func (a *app) printAttestation(d *attestationDoc) {
	if d.Result != "" {
		kind := "test result"
		if d.PredicateType == attest.PredicateSimulation {
			kind = "result of a simulation"
		}
		a.printf("result: %s (%s)\nverdict: %s\nevidence: %s\ncampaign: %s\n%s\n", d.Result, kind, oneLine(d.Label), oneLine(d.Evidence), oneLine(d.Campaign), oneLine(d.holdout))
		a.printf("valid: %s to %s\n", d.Created, d.ValidUntil)
		for _, s := range d.Subjects {
			a.printf("subject: %s\n", oneLine(digestsOf(s)))
		}
		for _, c := range d.Configuration {
			a.printf("by: %s\n", oneLine(digestsOf(c)))
		}
		for _, k := range d.Keys {
			a.printf("signed: %s\n", k)
		}
	}
	switch {
	case !d.OK:
		a.printf("FAIL  %s: %s\n", oneLine(d.File), oneLine(d.Fault))
	case d.Recomputed == fromBundle && len(d.NotCompared) > 0:
		a.printf("ok    %s: signatures and statements hold, and all of it follows from the bundle; its %s was not compared: another version wrote it\n", oneLine(d.File), strings.Join(d.NotCompared, ", "))
	case d.Recomputed == fromBundle:
		a.printf("ok    %s: signatures and statements hold, and all of it follows from the bundle\n", oneLine(d.File))
	case d.Recomputed == fromStore:
		a.printf("ok    %s: signatures and statements hold, and the verdict follows from the store\n", oneLine(d.File))
	case d.Recomputed == fromTraces:
		a.printf("ok    %s: signatures and statements hold, and the verdict follows from the traces; end, account, freeze and seal log are as attested\n", oneLine(d.File))
	default:
		a.printf("ok    %s: signatures and statements hold; the verdict was not computed again\n", oneLine(d.File))
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
