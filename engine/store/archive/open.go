package archive

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agentrooms/qualify/engine/store"
)

// Files are the files of an archive. Names may list other files too; whatever
// does not lie where Export puts files is left alone. Both methods are safe for
// concurrent use, and what they return is never written to.
type Files interface {
	Names() []string
	ReadFile(name string) ([]byte, error)
}

// Store is a read-only store over the files of an archive. Every method that
// would write is store.ErrReadOnly. It is safe for concurrent use. Rooms and
// traces are read from the files when they are asked for; the room that was read
// last is kept.
//
// It answers what the store it came from answers, about the campaign and the
// ceilings it drew on, but for what an archive does not have: other campaigns
// have neither plan nor registration, trials, rooms or other allotments,
// campaigns are numbered anew in their order and have no totals, rooms have no
// snapshot, nobody holds a lease or waits in a queue. Lookup is
// errors.ErrUnsupported.
type Store struct {
	files      Files
	withheld   bool
	campaign   string
	campaigns  []store.Campaign // oldest first
	ceilings   []store.Ceiling
	allotments []store.Allotment // in order of grant
	ledger     []store.LedgerRow
	seals      []store.SealRow
	trials     []store.Trial
	traces     map[string]string // digest of the stored trace by key
	rooms      []string          // keys, in order of the rooms' ids

	mu    sync.Mutex
	heads map[string]store.Head // of rooms that were read, by key
	last  *loadedRoom
}

var _ store.Store = (*Store)(nil)

// Open reads the records of an archive. Rooms, bodies and traces are not read
// yet; Check reads them all. Errors are store.ErrCorrupt and name the file, or
// come from f.
func Open(f Files) (*Store, error) {
	s := &Store{files: f, traces: map[string]string{}, heads: map[string]store.Head{}}
	names := map[string]bool{}
	for _, n := range f.Names() {
		names[n] = true
	}
	o := opener{files: f, names: names, s: s}
	for _, step := range []func() error{o.campaign, o.account, o.ledger, o.sealLog, o.trials, o.folders} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ID is the id of the campaign.
func (s *Store) ID() string { return s.campaign }

// BodiesWithheld reports whether the archive was made without the contents of
// texts.
func (s *Store) BodiesWithheld() bool { return s.withheld }

type opener struct {
	files Files
	names map[string]bool
	s     *Store
	doc   campaignDoc
}

func (o *opener) read(name string) ([]byte, error) {
	if !o.names[name] {
		return nil, damaged(name, "is missing")
	}
	return readFile(o.files, name)
}

func (o *opener) campaign() error {
	data, err := o.read(campaignFile)
	if err != nil {
		return err
	}
	d := &o.doc
	if err := decodeDoc(campaignFile, data, d); err != nil {
		return err
	}
	switch {
	case d.Schema != schema:
		return damaged(campaignFile, "schema %q is not %q, which this version reads", d.Schema, schema)
	case d.ID == "":
		return damaged(campaignFile, "no id")
	}
	o.s.campaign, o.s.withheld = d.ID, d.BodiesWithheld
	return nil
}

func (o *opener) account() error {
	data, err := o.read(accountFile)
	if err != nil {
		return err
	}
	var d accountDoc
	if err := decodeDoc(accountFile, data, &d); err != nil {
		return err
	}
	s := o.s
	for i := range d.Ceilings {
		c := d.Ceilings[i].ceiling()
		if !c.Funds.Valid() {
			return damaged(accountFile, "ceiling %s: funds %q are unknown", c.Name, c.Funds)
		}
		if i > 0 && store.CompareCeilings(s.ceilings[i-1], c) >= 0 {
			return damaged(accountFile, "ceiling %s is out of order", c.Name)
		}
		s.ceilings = append(s.ceilings, c)
	}
	known := map[string]bool{}
	for i := range d.Allotments {
		a := d.Allotments[i].allotment()
		switch {
		case known[a.ID]:
			return damaged(accountFile, "allotment %s twice", a.ID)
		case s.ceiling(a.Ceiling, a.Funds) == nil:
			return damaged(accountFile, "allotment %s is on ceiling %s of %s funds, which is not there", a.ID, a.Ceiling, a.Funds)
		}
		known[a.ID] = true
		s.allotments = append(s.allotments, a)
	}
	for i := range d.Older {
		s.campaigns = append(s.campaigns, d.Older[i].campaign())
	}
	c := &o.doc
	s.campaigns = append(s.campaigns, store.Campaign{
		ID: c.ID, Name: c.Name, PlanDigest: c.PlanDigest, Registration: c.Registration, Plan: c.Plan, Status: c.Status,
	})
	for i := range d.Newer {
		s.campaigns = append(s.campaigns, d.Newer[i].campaign())
	}
	clear(known)
	for i := range s.campaigns {
		if known[s.campaigns[i].ID] {
			return damaged(accountFile, "campaign %s twice", s.campaigns[i].ID)
		}
		known[s.campaigns[i].ID] = true
		s.campaigns[i].CreatedSeq = int64(i) + 1
	}
	return nil
}

func (o *opener) ledger() error {
	docs, err := readLines[ledgerDoc](o, ledgerFile, o.doc.LedgerRows)
	if err != nil {
		return err
	}
	var last int64
	for i := range docs {
		r := docs[i].row()
		switch {
		case r.N <= last:
			return damaged(ledgerFile, "line %d: row %d stands behind row %d", i+1, r.N, last)
		case o.s.ceiling(r.Ceiling, r.Funds) == nil:
			return damaged(ledgerFile, "line %d: ceiling %s of %s funds is not there", i+1, r.Ceiling, r.Funds)
		}
		last = r.N
		o.s.ledger = append(o.s.ledger, r)
	}
	return o.closed()
}

// closed wants the account to be of one piece: who drew stands in the ledger,
// campaigns and ceilings are those of the allotments.
func (o *opener) closed() error {
	s := o.s
	if why := checkGrants(s.allotments, s.ledger); why != "" {
		return damaged(ledgerFile, "%s", why)
	}
	drew := map[string]bool{s.campaign: true}
	drawn := map[*store.Ceiling]bool{}
	for i := range s.allotments {
		a := &s.allotments[i]
		drew[a.Campaign] = true
		if a.Campaign == s.campaign {
			drawn[s.ceiling(a.Ceiling, a.Funds)] = true
		}
	}
	for i := range s.campaigns {
		if c := &s.campaigns[i]; !drew[c.ID] {
			return damaged(accountFile, "campaign %s drew on no ceiling of these", c.ID)
		}
	}
	if len(s.ceilings) != max(len(drawn), min(len(s.ceilings), 1)) { // one that nothing was drawn on yet
		return damaged(accountFile, "campaign %s drew on %d of %d ceilings", s.campaign, len(drawn), len(s.ceilings))
	}
	return nil
}

func (o *opener) sealLog() error {
	docs, err := readLines[sealDoc](o, sealFile, o.doc.SealRows)
	for i := range docs {
		o.s.seals = append(o.s.seals, docs[i].row())
	}
	return err
}

func readLines[T any](o *opener, name string, want int) ([]T, error) {
	data, err := o.read(name)
	if err != nil {
		return nil, err
	}
	return decodeLines[T](name, data, want)
}

func (o *opener) trials() error {
	docs, err := readLines[trialDoc](o, trialsFile, o.doc.Trials)
	if err != nil {
		return err
	}
	s := o.s
	known := map[string]bool{}
	for i := range docs {
		t := docs[i].trial(s.campaign)
		why := badKey(t.Key)
		switch {
		case why != "":
			return damaged(trialsFile, "line %d: the key %q %s", i+1, t.Key, why)
		case known[t.Key]:
			return damaged(trialsFile, "line %d: trial %s twice", i+1, t.Key)
		case t.Room != "" && t.Room != roomID(s.campaign, t.Key):
			return damaged(trialsFile, "line %d: the room of trial %s is %q", i+1, t.Key, t.Room)
		case i > 0 && store.CompareTrials(s.trials[i-1], t) >= 0:
			return damaged(trialsFile, "line %d: trial %s is out of order", i+1, t.Key)
		}
		known[t.Key] = true
		s.trials = append(s.trials, t)
		if digest := docs[i].Trace; digest != "" {
			s.traces[t.Key] = digest
		}
	}
	return nil
}

// folders holds the names of rooms, bodies and traces against each other and
// against the trials, so that no file is without its place.
func (o *opener) folders() error {
	s := o.s
	for _, name := range sortedKeys(o.names) {
		var err error
		switch {
		case strings.HasPrefix(name, roomsDir):
			err = o.room(name)
		case strings.HasPrefix(name, bodiesDir):
			key, ok := keyOf(name, bodiesDir, linesExt)
			if s.withheld || !ok || !o.names[roomName(key)] {
				err = damaged(name, "there is no room for it, or bodies are withheld")
			}
		case strings.HasPrefix(name, tracesDir):
			key, ok := keyOf(name, tracesDir, linesExt)
			if !ok || s.traces[key] == "" {
				err = damaged(name, "no trial has this trace")
			}
		}
		if err != nil {
			return err
		}
	}
	if len(s.rooms) != o.doc.Rooms {
		return damaged(roomsDir, "holds %d rooms, %d were written", len(s.rooms), o.doc.Rooms)
	}
	slices.Sort(s.rooms)
	for _, key := range sortedKeys(s.traces) {
		if !o.names[traceName(key)] {
			return damaged(traceName(key), "is missing")
		}
	}
	return nil
}

func (o *opener) room(name string) error {
	key, ok := keyOf(name, roomsDir, docExt)
	why := badKey(key)
	switch {
	case !ok:
		return damaged(name, "is no file of a room")
	case why != "":
		return damaged(name, "the key %s", why)
	case !o.s.withheld && !o.names[bodiesName(key)]:
		return damaged(bodiesName(key), "is missing")
	}
	o.s.rooms = append(o.s.rooms, key)
	return nil
}

// readFile reads a file that is there.
func readFile(f Files, name string) ([]byte, error) {
	data, err := f.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}
