package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Kinds of the rows of a seal log.
const (
	KindRegistration  = "registration"   // written by campaigns
	KindFreeze        = "freeze"         // ManifestEntry
	KindOpening       = "opening"        // OpeningEntry
	KindUse           = "use"            // UseEntry
	KindVerified      = "verified"       // VerifiedEntry
	KindVoid          = "void"           // VoidEntry
	KindCampaignStart = "campaign_start" // StartEntry
	KindCampaignEnd   = "campaign_end"   // EndEntry
	KindVerdict       = "verdict"        // VerdictEntry
	KindAttestation   = "attestation"    // AttestationEntry
	KindCheckpoint    = "checkpoint"     // CheckpointEntry
)

// RegistrationEntry is what campaigns seals before the first trial.
type RegistrationEntry struct {
	Campaign string `json:"campaign"`
	Digest   string `json:"digest"` // "sha256:…" of Record
	Code     string `json:"code"`
	// Predecessor is the older campaign of the same name that this one changes, ""
	// for none; Differs names the keys of the plan that are other, as far as the
	// writer could tell.
	Predecessor string          `json:"predecessor,omitempty"`
	Differs     []string        `json:"differs,omitempty"`
	Record      json.RawMessage `json:"record"`
}

// ManifestEntry seals a manifest.
type ManifestEntry struct {
	Freeze string `json:"freeze"` // id of the manifest
	Moment
	Manifest json.RawMessage `json:"manifest"`
}

// OpeningEntry is the first dispatch of a holdout trial under (freeze,
// campaign). Reopen is the reason for opening a holdout that another campaign
// has opened under this freeze; "" for the first.
type OpeningEntry struct {
	Freeze   string `json:"freeze"`
	Campaign string `json:"campaign"`
	Moment
	Reason string `json:"reason"`
	Reopen string `json:"reopen"`
}

// UseEntry is a later use of an opened holdout by the campaign that opened it.
type UseEntry struct {
	Freeze   string `json:"freeze"`
	Campaign string `json:"campaign"`
	Moment
	Use string `json:"use"` // resume, score, …
}

// VerifiedEntry says that everything a freeze covers was read and found
// unchanged while a campaign held its holdout open: before batch Batch (from 0),
// and so after all batches before it; after the last when Batch is Batches.
type VerifiedEntry struct {
	Freeze   string `json:"freeze"`
	Campaign string `json:"campaign"`
	Moment
	Batch   int `json:"batch"`
	Batches int `json:"batches"`
}

// VoidEntry voids the results of a batch: what a freeze covers was changed while
// it ran. Trials are the keys of those that had ended.
type VoidEntry struct {
	Freeze   string `json:"freeze"`
	Campaign string `json:"campaign"`
	Moment
	Batch       int          `json:"batch"`
	Trials      []string     `json:"trials"`
	Differences []Difference `json:"differences"`
}

// StartEntry is the start of a campaign; Freeze is "" outside a holdout.
type StartEntry struct {
	Campaign string `json:"campaign"`
	Freeze   string `json:"freeze"`
	Moment
}

// EndEntry is the end of a campaign and the digest of its trace set.
type EndEntry struct {
	Campaign string `json:"campaign"`
	Moment
	Status string `json:"status"`
	Traces string `json:"traces"`
}

// VerdictEntry is a verdict of the gate.
type VerdictEntry struct {
	Campaign string `json:"campaign"`
	Moment
	Policy   string `json:"policy"` // digest
	Verdict  string `json:"verdict"`
	Document string `json:"document"` // digest of the whole verdict document
}

// AttestationEntry is a signed statement about a verdict.
type AttestationEntry struct {
	Campaign string `json:"campaign"`
	Moment
	Envelope string `json:"envelope"` // digest
	Key      string `json:"key"`      // id
}

// CheckpointEntry is a signed note over all rows before it (Sign).
type CheckpointEntry struct {
	Checkpoint string `json:"checkpoint"`
}

// Append appends an entry to a log.
func Append(ctx context.Context, l Log, kind string, entry any) (Row, error) {
	body, err := engine.Canonical(entry)
	if err != nil {
		return Row{}, fmt.Errorf("seal %s: %w", kind, err)
	}
	r, err := l.AppendSeal(ctx, kind, body)
	if err != nil {
		return Row{}, fmt.Errorf("seal %s: %w", kind, err)
	}
	return r, nil
}

// mostTries bounds Decide. At each further try somebody else has appended a row,
// so some process always gets on; that many rows in a row never come between.
const mostTries = 100

// Decide appends the entry that f makes of the rows of a log, behind the rows
// that f saw: when a row came between, the log is read and f is asked again.
// An f that returns kind "" appends nothing, and added is false. Errors of f are
// returned as they are; ErrConflict when rows kept coming between.
func Decide(ctx context.Context, l Log, f func(rows []Row) (kind string, entry any, err error)) (r Row, added bool, err error) {
	for range mostTries {
		rows, err := l.SealLog(ctx)
		if err != nil {
			return Row{}, false, err
		}
		kind, entry, err := f(rows)
		if err != nil || kind == "" {
			return Row{}, false, err
		}
		body, err := engine.Canonical(entry)
		if err != nil {
			return Row{}, false, fmt.Errorf("seal %s: %w", kind, err)
		}
		r, err := l.AppendSealAfter(ctx, Head(rows), kind, body)
		switch {
		case err == nil:
			return r, true, nil
		case !errors.Is(err, ErrConflict):
			return Row{}, false, fmt.Errorf("seal %s: %w", kind, err)
		}
	}
	return Row{}, false, fmt.Errorf("%w, %d times: others append to it all the time; run the command again", ErrConflict, mostTries)
}

// Frozen is a freeze found in a log.
type Frozen struct {
	ID       string
	N        int64 // row
	Moment         // of the row; zero for a manifest that is in no log
	Manifest *Manifest
}

// Freezes lists the freezes of a log in order. A row that does not hold the
// manifest it names is ErrLog.
func Freezes(rows []Row) ([]Frozen, error) {
	var out []Frozen
	for i := range rows {
		if rows[i].Kind != KindFreeze {
			continue
		}
		f, err := readFreeze(rows[i])
		if err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrLog, rows[i].N, err)
		}
		out = append(out, f)
	}
	return out, nil
}

func readFreeze(r Row) (Frozen, error) {
	var e ManifestEntry
	if err := engine.DecodeCanonical(r.Body, &e); err != nil {
		return Frozen{}, err
	}
	m, err := Parse(e.Manifest)
	if err != nil {
		return Frozen{}, err
	}
	id := IDPrefix + engine.Digest(e.Manifest) // which Parse found to be canonical
	if id != e.Freeze {
		return Frozen{}, fmt.Errorf("names freeze %s and holds %s", e.Freeze, id)
	}
	return Frozen{id, r.N, e.Moment, m}, nil
}

// Seal appends a manifest, once: a log that has it already is left as it is,
// and the row of then returned with added = false.
func Seal(ctx context.Context, l Log, m *Manifest, at Moment) (f Frozen, added bool, err error) {
	body, err := m.Canonical()
	if err != nil {
		return Frozen{}, false, err
	}
	if _, err := Parse(body); err != nil { // what cannot be read again must not be sealed
		return Frozen{}, false, err
	}
	id := IDPrefix + engine.Digest(body)
	r, added, err := Decide(ctx, l, func(rows []Row) (string, any, error) {
		have, err := Freezes(rows)
		if err != nil {
			return "", nil, err
		}
		if i := slices.IndexFunc(have, func(f Frozen) bool { return f.ID == id }); i >= 0 {
			f = have[i]
			return "", nil, nil
		}
		return KindFreeze, ManifestEntry{id, at, body}, nil
	})
	if err != nil || !added {
		return f, false, err
	}
	return Frozen{id, r.N, at, m}, true, nil
}
