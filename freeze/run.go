package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrHoldout refuses or stops a run on a holdout (Q4.3-4).
var ErrHoldout = errors.New("holdout refused")

// StatusVoid is the status in the end of a campaign whose results are void.
const StatusVoid = "void"

// Statuses in the end of a campaign, beside StatusVoid, as campaigns writes them.
const (
	StatusDone      = "done"
	StatusStopped   = "stopped" // by a limit
	StatusCancelled = "cancelled"
)

// Uses of an opened holdout.
const (
	UseResume = "resume" // the campaign goes on
	UseScore  = "score"  // its results are computed again
)

// Run keeps one run of a campaign to its seal log: it logs start and end and,
// under a freeze, verifies before the first trial, before each batch and after
// the last that nothing has changed, logs the one opening and each use, and
// voids the results of a batch in which something did. Its calls come from one
// goroutine, in the order Enter, Begin, Batch…, After, End. Refusals are
// ErrHoldout.
//
// Batches are numbered from 0; closed[b] are the keys of the trials of batch b
// that have ended, in this run or before.
type Run struct {
	Log      Log
	Campaign string
	Plan     string // digest
	Freeze   string // id; "" for a run that opens no holdout
	Reason   string // of the opening
	Reopen   string // reason for opening what another campaign has opened; "" for none
	// Verify reads all that the freeze covers and names what differs.
	Verify func(context.Context, *Manifest) ([]Difference, error)
	Now    func() Moment

	at       Holdout
	manifest *Manifest
	begun    bool // the holdout is open, by this run or before
}

// Enter refuses a run that may not open its holdout, before anything is stored.
func (r *Run) Enter(ctx context.Context, closed [][]string) error {
	if r.Freeze == "" {
		return nil
	}
	rows, err := r.Log.SealLog(ctx)
	if err != nil {
		return err
	}
	v := VerifyLog(rows)
	if len(v.Faults) > 0 {
		return fmt.Errorf("%w: %s; qualify freeze log --verify lists all that is wrong", ErrLog, v.Faults[0])
	}
	if r.manifest = v.Manifest(r.Freeze); r.manifest == nil {
		return fmt.Errorf("%w: the seal log holds no freeze %s; qualify freeze create seals one", ErrHoldout, r.Freeze)
	}
	others, err := r.read(rows)
	if err != nil {
		return err
	}
	if err := r.check(ctx, closed); err != nil {
		return err
	}
	return r.planned(others)
}

// read takes in what the log says of the campaign, and refuses it where it may
// not run on the holdout. others are the openings by other campaigns.
func (r *Run) read(rows []Row) (others []OpeningEntry, err error) {
	r.at = HoldoutOf(rows, r.Campaign)
	r.begun = r.at.Opened
	others = openedBy(rows, r.Freeze, r.Campaign)
	switch {
	case r.at.Freeze != "" && r.at.Freeze != r.Freeze:
		return nil, fmt.Errorf("%w: campaign %s ran under freeze %s and not under %s; another run is another campaign: give it another name in its file, then qualify freeze create", ErrHoldout, r.Campaign, r.at.Freeze, r.Freeze)
	case len(r.at.Voids) > 0:
		return nil, fmt.Errorf("%w: results of campaign %s are void (row %d of the seal log): what its freeze covers was changed while it ran; another run is another campaign: give it another name in its file, then qualify freeze create", ErrHoldout, r.Campaign, r.at.Voids[0].Row)
	case !r.begun && len(others) > 0 && r.Reopen == "":
		return nil, fmt.Errorf("%w: campaign %s opened the holdout under freeze %s at %s; to open it again, and have it counted, give --reopen REASON", ErrHoldout, others[0].Campaign, r.Freeze, others[0].At)
	}
	return others, nil
}

// planned refuses a plan that the freeze does not hold, but for a reopening.
func (r *Run) planned(others []OpeningEntry) error {
	reopened := r.at.Reopen != "" || !r.begun && len(others) > 0
	if reopened || r.manifest.Plans(r.Plan) {
		return nil
	}
	return fmt.Errorf("%w: freeze %s does not hold the plan of campaign %s: what runs on a holdout is fixed by its campaign file at the freeze, without other cases, arms or trials on the command line; qualify freeze create fixes it as it is now", ErrHoldout, r.Freeze, r.Campaign)
}

// Begin logs the start, and the opening or use of the holdout, before any trial
// is dispatched. complete says that every trial had ended before this run.
//
// Another process may have opened the holdout since Enter: what the log says is
// read again, and each row is appended only behind what was read (Decide). So of
// two campaigns that begin in the same moment one opens; the other is refused.
func (r *Run) Begin(ctx context.Context, complete bool, batches int) error {
	_, _, err := Decide(ctx, r.Log, func(rows []Row) (string, any, error) {
		if r.Freeze != "" {
			if _, err := r.read(rows); err != nil {
				return "", nil, err
			}
		}
		if anyRow(rows, KindCampaignStart, r.Campaign) {
			return "", nil, nil
		}
		return KindCampaignStart, StartEntry{r.Campaign, r.Freeze, r.Now()}, nil
	})
	if err != nil || r.Freeze == "" {
		return err
	}
	if _, _, err := Decide(ctx, r.Log, func(rows []Row) (string, any, error) { return r.open(rows, complete) }); err != nil {
		return err
	}
	r.begun = true
	if r.at.Verified > 0 {
		return nil
	}
	return r.verified(ctx, 0, batches)
}

// open is the row by which the campaign opens the holdout, or uses it once it is
// open.
func (r *Run) open(rows []Row, complete bool) (kind string, entry any, err error) {
	others, err := r.read(rows)
	switch {
	case err != nil:
		return "", nil, err
	case r.begun && complete:
		return KindUse, UseEntry{r.Freeze, r.Campaign, r.Now(), UseScore}, nil
	case r.begun:
		return KindUse, UseEntry{r.Freeze, r.Campaign, r.Now(), UseResume}, nil
	}
	e := OpeningEntry{r.Freeze, r.Campaign, r.Now(), r.Reason, ""}
	if len(others) > 0 {
		e.Reopen = r.Reopen
	}
	return KindOpening, e, nil
}

// Batch verifies between two batches. All trials of the batches before have
// ended.
func (r *Run) Batch(ctx context.Context, batch, batches int, closed [][]string) error {
	if r.Freeze == "" || batch <= r.at.Verified {
		return nil
	}
	if err := r.check(ctx, closed); err != nil {
		return err
	}
	return r.verified(ctx, batch, batches)
}

// After verifies behind the last trial of this run; complete says that it was
// the last of the campaign.
func (r *Run) After(ctx context.Context, complete bool, batches int, closed [][]string) error {
	if r.Freeze == "" {
		return nil
	}
	if err := r.check(ctx, closed); err != nil {
		return err
	}
	if !complete || r.at.Verified >= batches {
		return nil
	}
	return r.verified(ctx, batches, batches)
}

// End logs how the campaign ended, once for each end. A log without its start
// has no end of it either.
func (r *Run) End(ctx context.Context, status, traces string) error {
	_, _, err := Decide(ctx, r.Log, func(rows []Row) (string, any, error) {
		last := EndOf(rows, r.Campaign)
		if !anyRow(rows, KindCampaignStart, r.Campaign) || last.Status == status && last.Traces == traces {
			return "", nil, nil
		}
		return KindCampaignEnd, EndEntry{r.Campaign, r.Now(), status, traces}, nil
	})
	return err
}

// EndOf is how a campaign ended last; the zero entry when it has not.
func EndOf(rows []Row, campaign string) (last EndEntry) {
	for _, row := range rows {
		var e EndEntry
		if row.Kind == KindCampaignEnd && json.Unmarshal(row.Body, &e) == nil && e.Campaign == campaign {
			last = e
		}
	}
	return last
}

func (r *Run) verified(ctx context.Context, batch, batches int) error {
	r.at.Verified = batch
	return r.append(ctx, KindVerified, VerifiedEntry{r.Freeze, r.Campaign, r.Now(), batch, batches})
}

// check compares with the freeze. Where something differs, the trials that have
// ended since the last verification are void. What cannot be verified counts as
// changed, unless the run was interrupted.
func (r *Run) check(ctx context.Context, closed [][]string) error {
	ds, err := r.Verify(ctx, r.manifest)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		ds = []Difference{{Part: "verification", Name: "failed", Old: "verified", New: err.Error()}}
	case len(ds) == 0:
		return nil
	}
	voided := ""
	if r.begun && r.at.Verified < len(closed) {
		if keys := slices.Concat(closed[r.at.Verified:]...); len(keys) > 0 {
			if err := r.append(ctx, KindVoid, VoidEntry{r.Freeze, r.Campaign, r.Now(), r.at.Verified, keys, ds}); err != nil {
				return err
			}
			if err := r.append(ctx, KindCampaignEnd, EndEntry{r.Campaign, r.Now(), StatusVoid, ""}); err != nil {
				return err
			}
			voided = fmt.Sprintf("; void results from batch %d on: %d", r.at.Verified, len(keys))
		}
	}
	return fmt.Errorf("%w: the present is not freeze %s: %s%s", ErrHoldout, r.Freeze, briefly(ds), voided)
}

// mostNamed bounds the differences in one line; all of them are in the log or
// in qualify freeze verify.
const mostNamed = 6

// briefly names differences in one line. Files, cases and the like come before
// the sums that cover them.
func briefly(ds []Difference) string {
	sums := []string{"plan", "split", "tree"}
	var parts, late []string
	for _, d := range ds {
		if slices.Contains(sums, d.Part) {
			late = append(late, d.Part+" "+d.Name)
		} else {
			parts = append(parts, d.String())
		}
	}
	parts = append(parts, late...)
	if more := len(parts) - mostNamed; more > 0 {
		parts = append(parts[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

func (r *Run) append(ctx context.Context, kind string, entry any) error {
	_, err := Append(ctx, r.Log, kind, entry)
	return err
}
