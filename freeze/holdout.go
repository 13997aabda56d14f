package freeze

import (
	"encoding/json"
	"slices"
)

// Holdout is what a seal log says of the holdout of one campaign. Rows that
// cannot be read are passed over: VerifyLog names them.
type Holdout struct {
	Freeze string // under which the campaign started; "" for none
	Opened bool   // the campaign has opened the holdout
	Reopen string // its reason for opening what another had opened
	// Openings counts the openings under the freeze, of any campaign, and All
	// those of the whole log.
	Openings, All int
	// Verified is the last batch before which the freeze was verified; it is
	// Batches when it was verified behind the last.
	Verified, Batches int
	Voids             []Void
	Rows              int
	Head              string
}

// Void is one void batch.
type Void struct {
	Row int64
	VoidEntry
}

// Whole reports whether the freeze was verified behind the last batch and
// nothing is void.
func (h *Holdout) Whole() bool {
	return h.Opened && h.Batches > 0 && h.Verified == h.Batches && len(h.Voids) == 0
}

// VoidTrials are the keys of the void trials.
func (h *Holdout) VoidTrials() []string {
	var out []string
	for _, v := range h.Voids {
		out = append(out, v.Trials...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// HoldoutOf reads what a log says of the holdout of a campaign.
func HoldoutOf(rows []Row, campaign string) Holdout {
	h := Holdout{Rows: len(rows), Head: Head(rows)}
	for _, r := range rows {
		var e StartEntry
		if r.Kind == KindCampaignStart && json.Unmarshal(r.Body, &e) == nil && e.Campaign == campaign {
			h.Freeze = e.Freeze
			break
		}
	}
	for _, r := range rows {
		h.row(r, campaign)
	}
	return h
}

func (h *Holdout) row(r Row, campaign string) {
	switch r.Kind {
	case KindOpening:
		var e OpeningEntry
		if json.Unmarshal(r.Body, &e) != nil {
			return
		}
		h.All++
		if e.Freeze == h.Freeze {
			h.Openings++
		}
		if e.Campaign == campaign {
			h.Opened, h.Reopen = true, e.Reopen
		}
	case KindVerified:
		var e VerifiedEntry
		if json.Unmarshal(r.Body, &e) == nil && e.Campaign == campaign {
			h.Verified, h.Batches = e.Batch, e.Batches
		}
	case KindVoid:
		var e VoidEntry
		if json.Unmarshal(r.Body, &e) == nil && e.Campaign == campaign {
			h.Voids = append(h.Voids, Void{r.N, e})
		}
	}
}

// openedBy lists the openings under a freeze by other campaigns than one.
func openedBy(rows []Row, id, campaign string) []OpeningEntry {
	var out []OpeningEntry
	for _, r := range rows {
		var e OpeningEntry
		if r.Kind == KindOpening && json.Unmarshal(r.Body, &e) == nil && e.Freeze == id && e.Campaign != campaign {
			out = append(out, e)
		}
	}
	return out
}

// anyRow reports whether a log has a row of a kind about a campaign.
func anyRow(rows []Row, kind, campaign string) bool {
	return slices.ContainsFunc(rows, func(r Row) bool {
		var e struct {
			Campaign string `json:"campaign"`
		}
		return r.Kind == kind && json.Unmarshal(r.Body, &e) == nil && e.Campaign == campaign
	})
}
