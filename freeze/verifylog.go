package freeze

import (
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentrooms/qualify/engine"
)

// Verification is what VerifyLog found.
type Verification struct {
	Faults []Fault
	Rows   int
	Head   string
	// Freezes are the manifests that the log seals, in order; rows at fault are
	// not among them.
	Freezes []Frozen
	// Openings counts the openings of a holdout.
	Openings int
	// Signed is the number of rows under the newest checkpoint that a known key
	// signed; 0 without one.
	Signed int64
}

// Manifest is what the freeze of an id covers, nil where the log seals none.
func (v *Verification) Manifest(id string) *Manifest {
	for i := range v.Freezes {
		if v.Freezes[i].ID == id {
			return v.Freezes[i].Manifest
		}
	}
	return nil
}

// VerifyLog recomputes a log: the chain, the form of each entry, that each
// entry follows what it refers to (registration before freeze, by the plan that
// the manifest holds; start under the freeze before opening, opening before use
// and verdict, start before end, end before verdict, verdict before attestation), and that
// each checkpoint in it covers the rows before it. A predecessor that a
// registration names must be registered before it, under the same name. Times and
// words must be such as this package writes, a campaign start once, and batches be
// verified one after the other. With keys, a checkpoint must
// be signed by one of them, and at least one must be there.
//
// Rows cut off the end leave a log that is whole in itself. Only what is kept
// elsewhere shows that: a checkpoint (CheckCheckpoint) or a copy (Compare).
func VerifyLog(rows []Row, keys ...note.Verifier) Verification {
	v := verifier{
		keys: keys, out: Verification{Faults: checkChain(rows), Rows: len(rows), Head: Head(rows)}, rows: rows, tree: newTree(),
		registered: map[string]registered{}, frozen: map[string]*Manifest{}, opened: map[string]string{},
		started: map[string]string{}, ended: map[string]bool{}, judged: map[string]bool{}, voided: map[string]bool{},
		verified: map[string]VerifiedEntry{},
	}
	covered := 0 // rows that some checkpoint may cover
	for i := range rows {
		if rows[i].Kind == KindCheckpoint {
			covered = i
		}
	}
	for i := range rows {
		if err := v.entry(&rows[i]); err != nil {
			v.out.Faults = append(v.out.Faults, Fault{int64(i) + 1, rows[i].Kind + ": " + err.Error()})
		}
		if i >= covered {
			continue
		}
		if err := v.tree.add(&rows[i]); err != nil {
			v.out.Faults = append(v.out.Faults, Fault{int64(i) + 1, err.Error()})
		}
	}
	if len(keys) > 0 && v.out.Signed == 0 {
		v.out.Faults = append(v.out.Faults, Fault{0, "the log holds no checkpoint signed by " + keys[0].Name() + ": nothing shows that it was not written anew as a whole"})
	}
	return v.out
}

type verifier struct {
	keys []note.Verifier
	out  Verification
	rows []Row
	tree *tree

	registered            map[string]registered
	frozen                map[string]*Manifest // by id
	opened                map[string]string    // freeze to the campaign that opened it first
	started               map[string]string    // campaign to the freeze that its start names
	ended, judged, voided map[string]bool
	verified              map[string]VerifiedEntry // the last by campaign
}

func (v *verifier) entry(r *Row) error {
	switch r.Kind {
	case KindRegistration:
		return v.registration(r)
	case KindFreeze:
		f, err := readFreeze(*r)
		if err == nil {
			err = f.check()
		}
		if err != nil {
			return err
		}
		if v.frozen[f.ID] != nil {
			return fmt.Errorf("freeze %s is sealed already", f.ID)
		}
		v.frozen[f.ID] = f.Manifest
		v.out.Freezes = append(v.out.Freezes, f)
		return nil
	case KindOpening:
		return v.opening(r)
	case KindUse:
		var e UseEntry
		if err := decode(r, &e, &e.Moment); err != nil {
			return err
		}
		if e.Use != UseResume && e.Use != UseScore {
			return fmt.Errorf("use %q is none that this version knows", e.Use)
		}
		return v.isOpen(e.Freeze, e.Campaign)
	case KindVerified:
		return v.verification(r)
	case KindVoid:
		var e VoidEntry
		if err := decode(r, &e, &e.Moment); err != nil {
			return err
		}
		v.voided[e.Campaign] = true
		return v.isOpen(e.Freeze, e.Campaign)
	case KindCampaignStart:
		var e StartEntry
		if err := decode(r, &e, &e.Moment); err != nil {
			return err
		}
		if _, again := v.started[e.Campaign]; again {
			return fmt.Errorf("campaign %s starts a second time", e.Campaign)
		}
		v.started[e.Campaign] = e.Freeze
		return v.known(e.Campaign, e.Freeze)
	case KindCampaignEnd:
		return v.end(r)
	case KindVerdict:
		return v.verdict(r)
	case KindAttestation:
		var e AttestationEntry
		if err := decode(r, &e, &e.Moment); err != nil {
			return err
		}
		return need(v.judged[e.Campaign], "an attestation of campaign %s without a verdict before it", e.Campaign)
	case KindCheckpoint:
		return v.checkpoint(r)
	}
	return fmt.Errorf("is a kind that this version does not know")
}

// decode reads the body of a row, whose time must be one that MomentOf gives.
func decode(r *Row, entry any, at *Moment) error {
	if err := engine.DecodeCanonical(r.Body, entry); err != nil {
		return err
	}
	return at.check()
}

// verification wants the batches of a campaign verified one after the other, each
// of the same number.
func (v *verifier) verification(r *Row) error {
	var e VerifiedEntry
	if err := decode(r, &e, &e.Moment); err != nil {
		return err
	}
	last, seen := v.verified[e.Campaign]
	v.verified[e.Campaign] = e
	switch {
	case e.Batch < 0 || e.Batch > e.Batches:
		return fmt.Errorf("campaign %s is verified before batch %d of %d", e.Campaign, e.Batch, e.Batches)
	case seen && e.Batches != last.Batches:
		return fmt.Errorf("campaign %s has %d batches, and %d in an earlier row", e.Campaign, e.Batches, last.Batches)
	case !seen && e.Batch > 0, seen && e.Batch > last.Batch+1:
		return fmt.Errorf("campaign %s is verified before batch %d and was not before the one ahead of it", e.Campaign, e.Batch)
	case seen && e.Batch < last.Batch:
		return fmt.Errorf("campaign %s is verified before batch %d behind batch %d", e.Campaign, e.Batch, last.Batch)
	}
	return v.isOpen(e.Freeze, e.Campaign)
}

// end wants an end behind the start. Another may follow: a run that a limit
// stopped goes on, and stores that share a log may have the same campaign.
func (v *verifier) end(r *Row) error {
	var e EndEntry
	if err := decode(r, &e, &e.Moment); err != nil {
		return err
	}
	v.ended[e.Campaign] = true
	switch {
	case !slices.Contains([]string{StatusDone, StatusStopped, StatusCancelled, StatusVoid}, e.Status):
		return fmt.Errorf("campaign %s ends as %q, which this version does not know", e.Campaign, e.Status)
	case e.Status == StatusVoid && !v.voided[e.Campaign]:
		return fmt.Errorf("campaign %s ends as void, and none of its results are", e.Campaign)
	}
	_, started := v.started[e.Campaign]
	return need(started, "campaign %s ends and never started", e.Campaign)
}

func (v *verifier) verdict(r *Row) error {
	var e VerdictEntry
	if err := decode(r, &e, &e.Moment); err != nil {
		return err
	}
	v.judged[e.Campaign] = true
	switch {
	case e.Verdict != "PASS" && e.Verdict != "FAIL" && e.Verdict != "INCONCLUSIVE":
		return fmt.Errorf("verdict %q on campaign %s is none", e.Verdict, e.Campaign)
	case e.Verdict == "PASS" && v.voided[e.Campaign]:
		return fmt.Errorf("campaign %s passes with void results", e.Campaign)
	}
	return need(v.ended[e.Campaign], "a verdict on campaign %s before it ended", e.Campaign)
}

func (v *verifier) isOpen(id, campaign string) error {
	return need(v.opened[pair(id, campaign)] != "", "campaign %s uses a holdout that it did not open under freeze %s", campaign, id)
}

func need(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func (v *verifier) registration(r *Row) error {
	var e RegistrationEntry
	if err := engine.DecodeCanonical(r.Body, &e); err != nil {
		return err
	}
	if d := "sha256:" + engine.Digest(e.Record); d != e.Digest {
		return fmt.Errorf("campaign %s: the record's digest is %s, not %s", e.Campaign, d, e.Digest)
	}
	if _, again := v.registered[e.Campaign]; again {
		return fmt.Errorf("campaign %s is registered already", e.Campaign)
	}
	now, err := readRecord(e.Record)
	if err != nil {
		return fmt.Errorf("campaign %s: %w", e.Campaign, err)
	}
	err = v.follows(&e, now)
	v.registered[e.Campaign] = now
	if err != nil {
		return err
	}
	_, started := v.started[e.Campaign]
	return need(!started, "campaign %s is registered after its start", e.Campaign)
}

// follows checks the predecessor that a registration names. A registration that
// names none is no fault, even behind another of its name: earlier builds wrote
// no predecessor, and both rows are there to be seen.
func (v *verifier) follows(e *RegistrationEntry, now registered) error {
	if e.Predecessor == "" {
		return need(len(e.Differs) == 0, "campaign %s says in what it differs, and from no campaign", e.Campaign)
	}
	before, ok := v.registered[e.Predecessor]
	switch {
	case e.Predecessor == e.Campaign:
		return fmt.Errorf("campaign %s names itself as its predecessor", e.Campaign)
	case !ok:
		return fmt.Errorf("campaign %s names the predecessor %s, which is not registered before it", e.Campaign, e.Predecessor)
	case before.name != now.name:
		return fmt.Errorf("campaign %s is named %q, its predecessor %s is named %q: that is another campaign", e.Campaign, now.name, e.Predecessor, before.name)
	}
	return need(len(e.Differs) == 0 || before.plan != now.plan, "campaign %s says to differ from its predecessor %s, and has the same plan", e.Campaign, e.Predecessor)
}

func (v *verifier) opening(r *Row) error {
	var e OpeningEntry
	if err := decode(r, &e, &e.Moment); err != nil {
		return err
	}
	v.out.Openings++
	if err := v.known(e.Campaign, e.Freeze); err != nil {
		return err
	}
	if e.Reopen == "" { // a reopening is counted, whatever it runs
		if err := v.planned(e.Campaign, e.Freeze); err != nil {
			return err
		}
	}
	first := v.opened[e.Freeze]
	if first == "" {
		v.opened[e.Freeze] = e.Campaign
	}
	if v.opened[pair(e.Freeze, e.Campaign)] != "" {
		return fmt.Errorf("campaign %s opens the holdout under freeze %s twice", e.Campaign, e.Freeze)
	}
	v.opened[pair(e.Freeze, e.Campaign)] = e.Campaign
	if v.judged[e.Campaign] {
		return fmt.Errorf("campaign %s opens a holdout after its verdict", e.Campaign)
	}
	if first == "" && e.Reopen != "" {
		return fmt.Errorf("campaign %s opens a holdout again that nobody had opened under freeze %s", e.Campaign, e.Freeze)
	}
	if under, started := v.started[e.Campaign]; !started || under != e.Freeze {
		return fmt.Errorf("campaign %s opens a holdout under freeze %s, and did not start under it: its trials may be older than the freeze", e.Campaign, e.Freeze)
	}
	return need(e.Freeze != "" && (first == "" || e.Reopen != ""),
		"campaign %s opens a holdout that campaign %s opened under freeze %s, and gives no reason", e.Campaign, first, e.Freeze)
}

// planned wants the plan of a campaign to be one that the freeze fixes: only a
// plan that was made before the freeze can be.
func (v *verifier) planned(campaign, id string) error {
	m := v.frozen[id]
	if m == nil { // which is a fault of its own
		return nil
	}
	return need(m.Plans(v.registered[campaign].plan), "campaign %s opens a holdout under freeze %s, which does not hold its plan", campaign, id)
}

// Plans reports whether the manifest fixes a plan, by its digest.
func (m *Manifest) Plans(digest string) bool {
	for _, d := range m.Plan {
		if d == digest && digest != "" {
			return true
		}
	}
	return false
}

// registered is what a registration record says of its campaign: its name and
// the digest of its plan, "" where it names none.
type registered struct{ name, plan string }

func readRecord(record json.RawMessage) (registered, error) {
	var r struct {
		Name string `json:"name"`
		Plan string `json:"plan"`
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return registered{}, fmt.Errorf("the record cannot be read: %w", err)
	}
	return registered{r.Name, r.Plan}, nil
}

// known wants a campaign registered and a freeze, if any, sealed.
func (v *verifier) known(campaign, id string) error {
	if _, ok := v.registered[campaign]; !ok {
		return fmt.Errorf("campaign %s is not registered before it", campaign)
	}
	return need(id == "" || v.frozen[id] != nil, "freeze %s is not sealed before it", id)
}

func pair(id, campaign string) string {
	b, err := json.Marshal([]string{id, campaign})
	if err != nil {
		return id + " " + campaign
	}
	return string(b)
}

func (v *verifier) checkpoint(r *Row) error {
	var e CheckpointEntry
	if err := engine.DecodeCanonical(r.Body, &e); err != nil {
		return err
	}
	c, err := openCheckpoint([]byte(e.Checkpoint), v.keys)
	if err != nil {
		return err
	}
	if c.Size != v.tree.size {
		return fmt.Errorf("covers %d rows and stands behind %d", c.Size, v.tree.size)
	}
	root, err := v.tree.root(c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		return fmt.Errorf("its root is %s, the rows before it give %s", c.Root, root)
	}
	if c.Signed {
		v.out.Signed = c.Size
	}
	return nil
}
