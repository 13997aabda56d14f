package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/agentrooms/qualify/campaigns"
	goldfile "github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/attest"
)

// stage is a folder with campaigns of which there are bundles and attestations.
type stage struct{ dir string }

func (s stage) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s stage) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(s.path(name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return s.path(name)
}

// want runs a command that must end with an exit code.
func (s stage) want(t *testing.T, exit int, args ...string) string {
	t.Helper()
	code, out, talk := command(t, args...)
	if code != exit {
		t.Fatalf("%v: exit %d, want %d\n%s%s", args, code, exit, out, talk)
	}
	return out
}

// newStage has two cases of the starter corpus, both of the holdout, and what is
// released.
func newStage(t *testing.T) stage {
	t.Helper()
	s := stage{t.TempDir()}
	s.want(t, exitOK, "init", s.dir, "--corpus", "cases")
	if err := os.MkdirAll(s.path("release"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write(t, "release/agents.txt", []byte("our agents, version 1\n"))
	s.write(t, "policy.yaml", []byte(`schema: qualify/policy/v1
name: release
kind: simulation
alpha: 0.05
preconditions: [{id: freeze_verified}, {id: log_intact}, {id: holdout_opened_once}, {id: traces_verified}, {id: arms_matched}, {id: denominators_closed}, {id: budget_proof}, {id: oracle_audit_clean}, {id: controls_behaved}]
rules:
  - {id: some, step: safety, severity: required, metric: completion, arm: planner, comparison: absolute, limit: 0.10, bound: point, why: to be moved by a forger}
`))
	s.want(t, exitOK, "attest", "keygen", "-o", s.path("alice.key"))
	s.want(t, exitOK, "attest", "keygen", "-o", s.path("mallory.key"))
	return s
}

// manifest is the freeze of the campaign that qualified last.
func (s stage) manifest(t *testing.T) *freeze.Manifest {
	t.Helper()
	data, err := os.ReadFile(s.path("mine.freeze.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := freeze.Parse(bytes.TrimSuffix(data, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// qualifies takes a campaign from its registration to its attestation and
// bundle: NAME.jsonl and NAME.tar.zst.
func (s stage) qualifies(t *testing.T, name string, seed int) *exhibit {
	t.Helper()
	demo, ok := campaigns.Builtin("demo")
	if !ok {
		t.Fatal("no built-in campaign")
	}
	text := string(demo)
	for _, swap := range [][2]string{
		{"\nname: demo", "\nname: " + name},
		{"\nseed: 7", fmt.Sprint("\nseed: ", seed)},
		{"\ncorpus: builtin", "\ncorpus: cases\npolicy: policy.yaml\nfreeze: {include: [release]}"},
		{"split: dev", "split: holdout"},
		{`include: ["*"]`, `include: ["shed-*"]`},
		{"\ntrials: 5", "\ntrials: 1"},
		{"\n  - {name: selective, mode: selective, idempotency: on}", ""},
		{"\n  - {name: legacy-keyed, mode: legacy, idempotency: on, role: ablation}", ""},
	} {
		if !strings.Contains(text, swap[0]) {
			t.Fatalf("the built-in campaign does not hold %q", swap[0])
		}
		text = strings.Replace(text, swap[0], swap[1], 1)
	}
	file, db := s.write(t, name+".yaml", []byte(text)), "sqlite:"+s.path(name+".db")
	s.want(t, exitOK, "freeze", "create", file, "--store", db, "-o", s.path(name+".freeze.json"))
	s.want(t, exitOK, "run", file, "--freeze", "f_", "--store", db)
	s.want(t, exitOK, "attest", "sign", name, "--policy", s.path("policy.yaml"), "--corpus", s.path("cases"), "--key", s.path("alice.key"),
		"--artifact", s.path("release/agents.txt"), "--store", db, "-o", s.path(name+".jsonl"))
	return s.bundles(t, name)
}

// bundles writes the bundle of a campaign that qualified.
func (s stage) bundles(t *testing.T, name string, more ...string) *exhibit {
	t.Helper()
	file := s.path(name + strings.Join(more, "") + ".tar.zst")
	if _, err := os.Stat(file); err == nil {
		file = s.path("again-" + filepath.Base(file))
	}
	s.want(t, exitOK, append([]string{"report", "bundle", name, "--corpus", s.path("cases"), "--policy", s.path("policy.yaml"), "--store", "sqlite:" + s.path(name+".db"), "-o", file}, more...)...)
	envelope, err := os.ReadFile(s.path(name + ".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return readExhibit(t, file, envelope)
}

// forgery is what somebody does to evidence who has every tool but the key of
// the signer. He writes counts, chains, digests and index anew wherever the
// edit touches them.
type forgery struct {
	name string
	edit func(t *testing.T, e, other *exhibit)
	// judged: he also has verdict and report computed anew from what he forged.
	// It is left out where words show that something else is found before.
	judged bool
	// by: the check of report verify that finds it, without the attestation. "" for
	// none: the bundle agrees with itself, and only the signature tells it from the
	// truth.
	by string
	// words of the finding of attest verify.
	words string
}

// forgeries of traces, log, account, corpus, policy, verdict and bundle. The
// planner's trial of the tool shed is the one they are about.
func (s stage) forgeries() []forgery {
	const key, legacy = "shed-loans-01/planner/0", "shed-loans-01/legacy/0"
	const shed = "corpus/shed/shed-loans-01.yaml"
	const gold = "corpus/gold/shed/shed-loans-01.yaml"
	return []forgery{
		// traces
		{name: "a trial is left out", by: "traces", words: "no closed trial is recorded", edit: func(t *testing.T, e, _ *exhibit) { e.dropTrial(t, key) }},
		{name: "a trace stands for another trial", by: "traces", words: "the trace is of trial shed-loans-01/legacy/0", edit: func(t *testing.T, e, _ *exhibit) { e.takeTrace(t, key, e, legacy) }},
		{name: "an effect is left out of a trace", by: "traces", words: "is not the one that the room's rows stand for", edit: func(t *testing.T, e, _ *exhibit) { e.dropEffect(t, key) }},
		{name: "an effect is left out of trace and room", by: "traces", words: "is not the one that the room's rows stand for", edit: func(t *testing.T, e, _ *exhibit) {
			e.room(t, key, func(o object) {
				effects, _ := o["effects"].([]any)
				o["effects"] = effects[1:]
			})
			e.dropBodies(t, key)
			e.dropEffect(t, key)
		}},
		{name: "an event of a room is rewritten", by: "traces", words: "the event differs from the receipt", edit: func(t *testing.T, e, _ *exhibit) {
			e.room(t, key, func(o object) {
				rows, _ := o["rows"].([]any)
				row, _ := rows[len(rows)/2].(object)
				lower(t, within(t, row, "event"), "at_us")
			})
		}},
		{name: "a trace ends in a better world", by: "traces", words: "is not the one that the room's rows stand for", edit: func(t *testing.T, e, _ *exhibit) {
			e.trace(t, key, func(rs []object) []object {
				docs, _ := rs[len(rs)-1]["documents"].(object)
				docs["loans"] = object{"ladder": object{"until": 19, "with": "cleo"}, "barrow": object{"until": 15, "with": "dan"}, "moved": true}
				return rs
			})
		}},
		{name: "a cheaper call in trace, room and record", by: "traces", words: "the event states", edit: func(t *testing.T, e, _ *exhibit) {
			money := func(o object) { lower(t, within(t, o, "money"), "charged") }
			e.room(t, key, func(o object) {
				ops, _ := o["ops"].([]any)
				for _, x := range ops {
					op, _ := x.(object)
					if receipt, _ := op["receipt"].(object); receipt != nil && receipt["charged"] != json.Number("0") {
						lower(t, op, "charged")
						lower(t, receipt, "charged")
						break
					}
				}
				head, _ := o["head"].(object)
				money(head)
			})
			e.trace(t, key, func(rs []object) []object {
				for _, r := range rs {
					if r["rec"] == "op" && r["charged"] != json.Number("0") {
						lower(t, r, "charged")
						break
					}
				}
				money(rs[len(rs)-1])
				return rs
			})
			e.trial(t, key, money)
		}},
		{name: "a trace of another campaign", by: "traces", words: "the trace is of another plan", edit: func(t *testing.T, e, o *exhibit) { e.takeTrace(t, key, o, key) }},
		{name: "contents of a room are others", by: "traces", words: "the content does not match its digest", edit: func(t *testing.T, e, _ *exhibit) {
			e.lines(t, bodiesPart(key), func(all []object) []object {
				text, _ := all[0]["text"].(string)
				all[0]["text"] = text + "."
				return all
			})
		}},
		{name: "one content of a room is left out", by: "traces", words: "contents of 1 room are missing", edit: func(t *testing.T, e, _ *exhibit) { e.dropBody(t, key) }},
		{name: "contents of a room are left out", by: "container", words: "is missing", edit: func(t *testing.T, e, _ *exhibit) {
			delete(e.parts, bodiesPart(key))
			e.doc(t, roomPart(key), func(o object) { o["bodies"] = 0 })
		}},
		{name: "a message waits that nobody sent", by: "traces", words: "waits to be delivered, and revision", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, roomPart(key), func(o object) {
				outbox, _ := o["outbox"].([]any)
				m, _ := outbox[0].(object)
				within(t, m, "body")["status"] = "blocked"
			})
		}},
		{name: "a call at another time", by: "traces", words: "was dispatched at another time", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, roomPart(key), func(o object) { last(t, o, "ops")["dispatched_at_us"] = 1 })
		}},
		{name: "an overrun is acknowledged that was none", by: "traces", words: "an overrun is acknowledged", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, roomPart(key), func(o object) { last(t, o, "ops")["acknowledged"] = true })
		}},
		{name: "an effect at another place", by: "traces", words: "stands at place 0", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, roomPart(key), func(o object) { last(t, o, "effects")["n"] = 1 })
		}},
		{name: "more money for a room", by: "traces", words: "its limit is 0.20001, that of the trial 0.20", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, roomPart(key), func(o object) { within(t, o, "head", "money")["limit"] = 200_010 })
		}},

		// the seal log, chained anew each time
		{name: "the opening is left out", words: "the computed verdict differs at exit", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.withoutRow(t, freeze.KindOpening, false)
			e.log(t, func(rows []freeze.Row) []freeze.Row { // and what refers to it
				return slices.DeleteFunc(rows, func(r freeze.Row) bool { return r.Kind == freeze.KindVerified || r.Kind == freeze.KindUse })
			})
		}},
		{name: "the last verification is left out", words: "the computed verdict differs at exit", judged: true, edit: func(t *testing.T, e, _ *exhibit) { e.withoutRow(t, freeze.KindVerified, true) }},
		{name: "a use is left out", words: "does not go on from the attested head", judged: true, edit: func(t *testing.T, e, _ *exhibit) { e.withoutRow(t, freeze.KindUse, false) }},
		{name: "the registration of another campaign", by: "seal log", words: "which does not hold its plan", edit: func(t *testing.T, e, o *exhibit) {
			theirs, err := freeze.ParseRows(o.part(t, sealPart))
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(theirs, func(r freeze.Row) bool { return r.Kind == freeze.KindRegistration })
			record := decodeObject(t, theirs[i].Body)
			e.editRow(t, freeze.KindRegistration, func(body object) { body["record"], body["digest"] = record["record"], record["digest"] })
		}},
		{name: "another binary, and frozen so", words: "differs at freeze.id", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.refreeze(t, func(m object) {
				binaries, _ := m["binaries"].([]any)
				binary, _ := binaries[0].(object)
				binary["sha256"] = strings.Repeat("0", 64)
			})
		}},
		{name: "a price is changed, and frozen so", words: "differs at freeze.id", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.refreeze(t, func(m object) { within(t, m, "prices")["sim-1/rates/output"] = "1000000" })
		}},
		{name: "the log ends before the attested head", words: "does not go on from the attested head", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.log(t, func(rows []freeze.Row) []freeze.Row { return rows[:len(rows)-4] })
		}},

		{name: "the campaign was stopped, by its record", by: "seal log", words: "the seal log has the campaign done, its record says stopped", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, campaignPart, func(o object) { o["status"] = "stopped" })
		}},
		{name: "the log has other traces", by: "seal log", words: "the seal log has the campaign done with the traces sha256:0", edit: func(t *testing.T, e, _ *exhibit) {
			e.editRow(t, freeze.KindCampaignEnd, func(o object) { o["traces"] = "sha256:0" })
		}},
		{name: "another code ran it", by: "seal log", words: "of its registration give c_", edit: func(t *testing.T, e, _ *exhibit) {
			e.editRow(t, freeze.KindRegistration, func(o object) { o["code"] = "vcs:of-good-repute" })
		}},
		{name: "more batches were verified", words: "the computed verdict differs at exit", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.log(t, func(rows []freeze.Row) []freeze.Row {
				i := slices.IndexFunc(rows, func(r freeze.Row) bool { return r.Kind == freeze.KindVerified })
				more := rows[i+1]
				more.Body = bytes.Replace(more.Body, []byte(`"batch":1`), []byte(`"batch":2`), 1)
				rows = slices.Insert(rows, i+2, more)
				for j := i; j < i+3; j++ {
					rows[j].Body = bytes.Replace(rows[j].Body, []byte(`"batches":1`), []byte(`"batches":2`), 1)
				}
				return rows
			})
		}},

		// the account
		{name: "a ledger row is left out", by: "container", words: "the ledger grants", edit: func(t *testing.T, e, _ *exhibit) {
			n := 0
			e.lines(t, ledgerPart, func(all []object) []object { n = len(all) - 1; return slices.Delete(all, n/2, n/2+1) })
			e.count(t, "ledger_rows", n)
		}},
		{name: "an allotment that cost less", by: "account", words: "the ledger returned", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, accountPart, func(o object) {
				all, _ := o["allotments"].([]any)
				first, _ := all[0].(object)
				lower(t, first, "charged")
			})
		}},
		{name: "another campaign got the rest back", by: "account", words: "of the ledger names campaign c_other, an earlier one c_", edit: func(t *testing.T, e, _ *exhibit) {
			e.ledgerRow(t, "release", func(o object) { o["campaign"] = "c_other" })
		}},
		{name: "a ceiling for a purpose", by: "account", words: `is a ceiling, and names "of the owner's choice"`, edit: func(t *testing.T, e, _ *exhibit) {
			e.ledgerRow(t, "ceiling", func(o object) { o["ref"] = "of the owner's choice" })
		}},
		{name: "a higher limit", words: "differs at budget.limit_micros", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, accountPart, func(o object) {
				ceilings, _ := o["ceilings"].([]any)
				c, _ := ceilings[0].(object)
				c["limit"] = 99_000_000
			})
			e.lines(t, ledgerPart, func(all []object) []object {
				for _, o := range all {
					o["limit"] = 99_000_000
				}
				return all
			})
		}},

		// corpus, policy, plan
		{name: "gold is changed", words: "differs at exit", judged: true, edit: func(t *testing.T, e, _ *exhibit) { e.replace(t, gold, "times: 2}", "times: 3}") }},
		{name: "gold is changed, and frozen so", words: "differs at freeze.id", judged: true, edit: func(t *testing.T, e, _ *exhibit) {
			e.replace(t, gold, "times: 2}", "times: 3}")
			e.refreeze(t, func(m object) {
				g, err := goldfile.Parse(gold, e.parts[gold])
				if err != nil {
					t.Fatal(err)
				}
				digest, err := engine.Canonical(g)
				if err != nil {
					t.Fatal(err)
				}
				frozen := within(t, m, "corpus", "splits", "holdout", "gold")
				frozen["shed-loans-01"] = "sha256:" + engine.Digest(digest)
			})
		}},
		{name: "a case is changed", by: "traces", words: "has changed since it ran", edit: func(t *testing.T, e, _ *exhibit) { e.replace(t, shed, "one week longer", "seven days longer") }},
		{name: "the limit of a rule is changed", by: "verdict", words: "computed by release", judged: true, edit: func(t *testing.T, e, _ *exhibit) { e.replace(t, partPolicy, "limit: 0.10", "limit: 0.01") }},
		{name: "the plan names other prices", by: "seal log", words: "the campaign is registered with the plan", edit: func(t *testing.T, e, _ *exhibit) {
			e.doc(t, campaignPart, func(o object) {
				plan := within(t, o, "plan")
				plan["prices"] = "sha256:" + strings.Repeat("0", 64)
				o["plan_digest"] = "sha256:" + engine.Digest(encodeObject(t, plan))
			})
		}},

		// what is made of it
		{name: "the verdict is rewritten", by: "verdict", words: "differs at label", edit: func(t *testing.T, e, _ *exhibit) { e.replace(t, partVerdict, "INCONCLUSIVE", "PASS") }},
		{name: "a figure of the verdict is rewritten", by: "verdict", words: "differs at arms[0].claimed_met", edit: func(t *testing.T, e, _ *exhibit) {
			e.replace(t, partVerdict, `"claimed_met":`, `"claimed_met":1`)
		}},
		{name: "the report is rewritten", by: "report", words: "report.md is not the report", edit: func(t *testing.T, e, _ *exhibit) { e.replace(t, partReport, "not tested", "PASS") }},
		{name: "the verdict is left out", by: "container", words: "part verdict.json is missing", edit: func(t *testing.T, e, _ *exhibit) { delete(e.parts, partVerdict) }},
		{name: "a record is added", by: "container", words: "records/extra.json is none that a bundle has", edit: func(_ *testing.T, e, _ *exhibit) { e.parts["records/extra.json"] = []byte("{}\n") }},
		{name: "a file is added to the corpus", by: "container", words: "corpus/README.md is none that a bundle has", edit: func(_ *testing.T, e, _ *exhibit) { e.parts["corpus/README.md"] = []byte("x\n") }},
		{name: "a trace of no trial is added", by: "container", words: "no trial has this trace", edit: func(t *testing.T, e, _ *exhibit) {
			e.parts[tracePart("shed-loans-01/planner/1")] = e.part(t, tracePart(key))
		}},

		// two bundles
		{name: "the bundle of another campaign", words: "differs at budget.charged_micros", edit: func(_ *testing.T, e, o *exhibit) { e.parts, e.withheld = maps.Clone(o.parts), o.withheld }},
		{name: "the records of another campaign", words: "differs at budget.charged_micros", edit: func(t *testing.T, e, o *exhibit) {
			for _, name := range e.under("records/") {
				delete(e.parts, name)
			}
			for _, name := range o.under("records/") {
				e.parts[name] = o.part(t, name)
			}
		}, judged: true},
		{name: "the attestation of another campaign", words: "differs at budget.charged_micros", edit: func(_ *testing.T, e, o *exhibit) { e.envelope = o.envelope }},
		{name: "two attestations mixed", words: "the result belongs to figures", edit: func(_ *testing.T, e, o *exhibit) {
			mine, theirs := bytes.SplitAfter(e.envelope, []byte("\n")), bytes.SplitAfter(o.envelope, []byte("\n"))
			e.envelope = slices.Concat(mine[0], theirs[1])
		}},

		// the attestation
		{name: "a PASS under the signer's name, signed by another key", words: "payload or signature was changed", edit: func(t *testing.T, e, _ *exhibit) {
			e.envelope = s.forge(t, e.envelope, func(d *gate.Document) {
				d.Verdict.Verdict, d.Exit, d.Label = gate.Pass, exitOK, "PASS (simulated, policy for simulations)"
				for i := range d.Rules {
					d.Rules[i].Verdict = gate.Pass
				}
			})
		}},
		{name: "the signer's signatures under another figure", words: "payload or signature was changed", edit: func(t *testing.T, e, _ *exhibit) {
			forged := parseAttestation(t, s.forge(t, e.envelope, func(d *gate.Document) { d.Budget.Charged++ }))
			signed := parseAttestation(t, e.envelope)
			forged.Result.Signatures, forged.Figures.Signatures = signed.Result.Signatures, signed.Figures.Signatures
			e.envelope = attestationBytes(t, forged)
		}},
		{name: "a later time limit", words: "payload or signature was changed", edit: func(t *testing.T, e, _ *exhibit) {
			a := parseAttestation(t, e.envelope)
			o := decodeObject(t, a.Figures.Payload)
			within(t, o, "predicate")["valid_until"] = "2099-01-01T00:00:00Z"
			a.Figures.Payload = encodeObject(t, o)
			e.envelope = attestationBytes(t, a)
		}},
	}
}

func parseAttestation(t *testing.T, data []byte) *attest.Attestation {
	t.Helper()
	a, err := attest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func attestationBytes(t *testing.T, a *attest.Attestation) []byte {
	t.Helper()
	data, err := a.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// forge signs an edited document with the key of the forger, and puts the id of
// the signer over the signature.
func (s stage) forge(t *testing.T, envelope []byte, edit func(*gate.Document)) []byte {
	t.Helper()
	secret, err := os.ReadFile(s.path("mallory.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParsePrivate(secret)
	if err != nil {
		t.Fatal(err)
	}
	honest := parseAttestation(t, envelope)
	v, err := honest.Inspect()
	if err != nil {
		t.Fatal(err)
	}
	edit(v.Document)
	forged, err := attest.Sign(attest.Claim{
		Document: v.Document, Subjects: v.Subjects, Created: v.Created, Until: v.Until, Simulation: true, Manifest: s.manifest(t),
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*attest.Envelope{forged.Result, forged.Figures} {
		e.Signatures[0].KeyID = honest.Result.Signatures[0].KeyID
	}
	return attestationBytes(t, forged)
}

// attested verifies the attestation of evidence with its bundle.
func (s stage) attested(t *testing.T, e *exhibit) outcome {
	t.Helper()
	dir := t.TempDir()
	file, envelope := filepath.Join(dir, "b.tar"), filepath.Join(dir, "e.jsonl")
	e.pack(t, file)
	if err := os.WriteFile(envelope, e.envelope, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, talk := command(t, "attest", "verify", envelope, file, "--key", s.path("alice.key.pub"))
	return outcome{code, out, talk}
}

// reported verifies the bundle alone.
func (s stage) reported(t *testing.T, e *exhibit) outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar")
	e.pack(t, file)
	code, out, talk := command(t, "report", "verify", file)
	return outcome{code, out, talk}
}

// outcome is how a command ended and what it said.
type outcome struct {
	code      int
	out, talk string
}

func (f outcome) String() string { return fmt.Sprintf("exit %d\n%s%s", f.code, f.out, f.talk) }

// verifies wants both verifications to hold.
func (s stage) verifies(t *testing.T, e *exhibit) {
	t.Helper()
	for _, o := range []outcome{s.attested(t, e), s.reported(t, e)} {
		if o.code != exitOK {
			t.Fatal(o)
		}
	}
}

// TestQ8_EveryForgeryIsFound: whoever rewrites evidence, with all digests that
// need no key, is found by attest verify, and by report verify where the bundle
// contradicts itself. The same evidence untouched, exported again, and packed
// otherwise verifies.
func TestQ8_EveryForgeryIsFound(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	mine, other := s.qualifies(t, "mine", 8), s.qualifies(t, "other", 5)
	bare, again := s.bundles(t, "mine", "--withhold", withheldBodies), s.bundles(t, "mine") // by a log that has grown
	s.verifies(t, mine)
	shown := map[string]bool{}
	for _, f := range s.forgeries() {
		alone := f.by == "" || !shown[f.by]
		shown[f.by] = true
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s.finds(t, f, alone, mine, other)
		})
	}
	t.Run("withheld", func(t *testing.T) {
		t.Parallel()
		if slices.ContainsFunc(slices.Collect(maps.Keys(bare.parts)), func(name string) bool { return strings.HasPrefix(name, "records/bodies/") }) {
			t.Error("bodies are there")
		}
		s.verifies(t, bare)
		for _, f := range withholdings() {
			s.finds(t, f, false, bare, mine)
		}
	})
	t.Run("packed otherwise", func(t *testing.T) {
		t.Parallel()
		s.packedOtherwise(t, mine, again)
	})
	t.Run("every bit of the log", func(t *testing.T) {
		t.Parallel()
		everyBitOfTheLog(t, mine.part(t, sealPart))
	})
	t.Run("a report by another version", func(t *testing.T) {
		t.Parallel()
		s.anotherVersion(t, mine)
	})
	t.Run("behind the attested head", func(t *testing.T) {
		t.Parallel()
		s.behindTheHead(t, mine)
	})
}

// finds makes a forgery of e and wants it found. Attest verify names the check of
// report verify that found it; alone runs report verify as well, without the
// attestation.
func (s stage) finds(t *testing.T, f forgery, alone bool, e, other *exhibit) {
	t.Helper()
	forged := e.clone()
	f.edit(t, forged, other)
	if f.judged {
		forged.judgeAgain(t, t.TempDir())
	}
	if forged.equal(e) {
		t.Fatalf("%s: nothing was changed", f.name)
	}
	attested := s.attested(t, forged)
	_, fault, found := strings.Cut("\n"+attested.out, "\nFAIL  ")
	if attested.code != exitFail || !found || !strings.Contains(fault, f.words) || f.by != "" && !strings.Contains(fault, ": "+f.by+": ") {
		t.Errorf("%s: attest verify: %v, want a finding of %q with %q", f.name, attested, f.by, f.words)
	}
	if !alone || maps.EqualFunc(forged.parts, e.parts, bytes.Equal) {
		return // or the bundle is the true one
	}
	if reported := s.reported(t, forged); f.by == "" && reported.code != exitOK || f.by != "" && !strings.Contains("\n"+reported.out, "\nFAIL  "+f.by+": ") {
		t.Errorf("%s: report verify: %v, want a finding of %q", f.name, reported, f.by)
	}
}

// withholdings are forgeries of a bundle whose bodies are withheld; the other
// exhibit is the same campaign with bodies.
func withholdings() []forgery {
	whole := func(t *testing.T, e, full *exhibit) {
		t.Helper()
		e.withheld = nil
		e.doc(t, campaignPart, func(o object) { o["bodies_withheld"] = false })
		for _, folder := range []string{"records/rooms/", "records/bodies/"} {
			for _, name := range full.under(folder) {
				e.parts[name] = full.part(t, name)
			}
		}
	}
	const key = "shed-loans-01/planner/0"
	room := func(edit func(*testing.T, object)) func(*testing.T, *exhibit, *exhibit) {
		return func(t *testing.T, e, _ *exhibit) {
			t.Helper()
			e.doc(t, roomPart(key), func(o object) { edit(t, o) })
		}
	}
	return []forgery{
		{name: "an effect is left out", by: "traces", words: "of the trace is not that of the room", edit: room(func(_ *testing.T, o object) { delete(o, "effects") })},
		{name: "an effect on another target", by: "traces", words: "effect 2 of the trace is not that of the room", edit: room(func(t *testing.T, o object) { last(t, o, "effects")["target"] = "barrow" })},
		{name: "a call by another agent", by: "traces", words: "of the trace is not that of the room", edit: room(func(t *testing.T, o object) { last(t, o, "ops")["agent"] = "nobody" })},
		{name: "another reply", by: "traces", words: "the event differs from the receipt", edit: room(func(t *testing.T, o object) {
			within(t, last(t, o, "ops"), "receipt", "result", "reply", "text")["len"] = 1
		})},
		{name: "another outcome", by: "traces", words: "its state is settled_failed, its receipt makes it settled_ok", edit: room(func(t *testing.T, o object) { last(t, o, "ops")["status"] = "settled_failed" })},
		{name: "a command without its content", by: "traces", words: "holds nothing of its kind", edit: func(t *testing.T, e, _ *exhibit) {
			e.room(t, key, func(o object) {
				rows, _ := o["rows"].([]any)
				for _, r := range rows {
					row, _ := r.(object)
					commands, _ := row["commands"].([]any)
					for _, c := range commands {
						command, _ := c.(object)
						delete(command, "artifact")
						delete(command, "note")
						delete(command, "say")
					}
				}
				delete(o, "outbox")
			})
		}},
		{name: "another end", by: "traces", words: "the trace ends at", edit: room(func(t *testing.T, o object) { within(t, o, "head")["termination"] = "exhausted" })},
		{name: "another machine", by: "traces", words: "is not that of the room, whose machine is other@1", edit: room(func(t *testing.T, o object) { within(t, o, "head")["machine"] = "other@1" })},
		{name: "nothing is said to be withheld", by: "container", words: "is missing", edit: func(t *testing.T, e, _ *exhibit) {
			e.withheld = nil
			e.doc(t, campaignPart, func(o object) { o["bodies_withheld"] = false })
		}},
		{name: "contents are put back wrong", by: "traces", words: "the content does not match its digest", edit: func(t *testing.T, e, full *exhibit) {
			whole(t, e, full)
			e.lines(t, bodiesPart("shed-loans-01/planner/0"), func(all []object) []object {
				all[len(all)-1]["text"] = "put back"
				return all
			})
		}},
		{name: "contents are put back in part", by: "traces", words: "contents of 1 room are missing", edit: func(t *testing.T, e, full *exhibit) {
			whole(t, e, full)
			e.dropBody(t, "shed-loans-01/planner/0")
		}},
	}
}

// packedOtherwise: the tar is what counts, not how it is compressed, nor which
// store it was made from.
func (s stage) packedOtherwise(t *testing.T, mine, again *exhibit) {
	t.Helper()
	tar := unpacked(t, s.path("mine.tar.zst"))
	want := s.digest(t, s.path("mine.tar.zst"))
	forms := map[string][]byte{"mine.tar": tar}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level))
		if err != nil {
			t.Fatal(err)
		}
		forms[fmt.Sprint("level", int(level), ".tar.zst")] = z.EncodeAll(tar, nil)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, form := range forms {
		s.write(t, name, form)
		if got := s.digest(t, s.path(name)); got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
	s.want(t, exitOK, "attest", "verify", s.path("mine.jsonl"), s.path("mine.tar"), "--key", s.path("alice.key.pub"))
	s.want(t, exitOK, "report", "bundle", "mine", "--store", "bundle:"+s.path("mine.tar.zst"), "-o", s.path("copy.tar.zst"))
	if got := s.digest(t, s.path("copy.tar.zst")); got != want {
		t.Errorf("made from the bundle: digest %s, want %s", got, want)
	}
	s.verifies(t, again)
	for name, data := range mine.parts {
		same := name == sealPart || name == campaignPart || name == partVerdict || name == partReport // they tell of the log
		if !same && !bytes.Equal(again.parts[name], data) {
			t.Errorf("exported again: %s is another", name)
		}
	}
}

// digest is the digest of a bundle, which report verify prints.
func (s stage) digest(t *testing.T, file string) string {
	t.Helper()
	out := s.want(t, exitOK, "report", "verify", file)
	_, digest, found := strings.Cut(out, "\nbundle sha256:")
	if !found {
		t.Fatalf("no digest in %s", out)
	}
	return digest
}

// everyBitOfTheLog flips bits of an exported seal log: one in 53, or all when
// QUALIFY_LONG is set. Each is found without any key. Lines are read one by one,
// as they are in a file; the chain is recomputed where a line can still be read.
func everyBitOfTheLog(t *testing.T, data []byte) {
	t.Helper()
	step := 53
	if os.Getenv("QUALIFY_LONG") != "" {
		step = 1
	}
	rows, err := freeze.ParseRows(data)
	if err != nil || len(freeze.VerifyLog(rows).Faults) > 0 {
		t.Fatalf("untouched: %v", err)
	}
	bit, readable := 0, 0
	for i, line := range bytes.SplitAfter(data, []byte("\n")) {
		for ; bit < len(line)*8; bit += step {
			flipped := bytes.Clone(line)
			flipped[bit/8] ^= 1 << (bit % 8)
			now, err := freeze.ParseRows(flipped)
			if err != nil {
				continue
			}
			readable++
			if len(now) == 1 && freeze.RowDigest(now[0]) != now[0].Digest && readable%64 != 0 {
				continue // a fault of the chain, as each 64th of them shows
			}
			if len(freeze.VerifyLog(slices.Concat(rows[:i], now, rows[i+1:])).Faults) == 0 {
				t.Fatalf("row %d, bit %d: nothing is found", i+1, bit)
			}
		}
		bit -= len(line) * 8
	}
	if readable == 0 {
		t.Error("no flip left a line that can be read: the chain was not tried")
	}
}

// behindTheHead: an attestation vouches for the log up to the head that it
// names. What came later, such as the row of the attestation itself, is shown by
// a copy of the log or a checkpoint only.
func (s stage) behindTheHead(t *testing.T, mine *exhibit) {
	t.Helper()
	kept := s.write(t, "kept.jsonl", mine.part(t, sealPart))
	compare := func(e *exhibit, exit int) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "b.tar")
		e.pack(t, file)
		s.want(t, exit, "freeze", "log", kept, "--verify", "--compare", "bundle:"+file)
	}
	compare(mine, exitOK)
	cut := mine.clone()
	cut.withoutRow(t, freeze.KindAttestation, true)
	cut.judgeAgain(t, t.TempDir())
	s.verifies(t, cut)
	compare(cut, exitFail)
}

// anotherVersion: whoever says that another version wrote the report can write
// what he likes into it, so it is not said to hold.
func (s stage) anotherVersion(t *testing.T, mine *exhibit) {
	t.Helper()
	e := mine.clone()
	e.replace(t, partVerdict, `"tool":"`+toolName+`"`, `"tool":"qualify 9.9.9"`)
	e.parts[partReport] = []byte("# PASS, and by far\n")
	attested, reported := s.attested(t, e), s.reported(t, e)
	if attested.code != exitOK || !strings.Contains(attested.out, "; its report.md was not compared: another version wrote it\n") {
		t.Errorf("attest verify: %v", attested)
	}
	if reported.code != exitOK || !strings.Contains(reported.out, "\nSKIP  report: not compared: report.md says to be by qualify 9.9.9; this is "+toolName) {
		t.Errorf("report verify: %v", reported)
	}
}
