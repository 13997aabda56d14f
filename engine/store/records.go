package store

import (
	"context"
	"time"

	"github.com/agentrooms/qualify/engine"
)

// Records is the port to everything that is not a room: money of the store,
// campaigns, trials, leases and the seal log.
type Records interface {
	// EnsureCeiling creates the ceiling if absent; an existing one keeps its
	// limit. Grant sets a new total: ErrBelowSpent under charged+held;
	// ackOps acknowledges overruns, and clears the halt when all are.
	EnsureCeiling(ctx context.Context, name string, funds Funds, limit int64) (Ceiling, error)
	Grant(ctx context.Context, name string, funds Funds, total int64, ackOps []string) (Ceiling, error)
	Ceilings(ctx context.Context) ([]Ceiling, error)

	// Allot moves Sum from available to held in one transaction, or fails with
	// ErrExhausted, ErrHalted or ErrQueued and moves nothing. ErrQueued: another
	// campaign has a live ticket for this ceiling, and this one has none or a
	// later one. A grant takes the campaign's ticket away. An equal allotment
	// that exists is returned unchanged (ErrExists if it differs; the cap is a
	// condition of the grant and may differ). The time it takes does not depend
	// on how many allotments there were before.
	Allot(ctx context.Context, a Allotment) (Allotment, error)
	// Release closes an allotment: charged is added to the ceiling's charged,
	// keep stays held (uncertain operations), the rest of the sum is released.
	// Overruns beyond the sum are charged in full and halt the ceiling.
	// Releasing again with equal figures is a no-op, else ErrConflict.
	Release(ctx context.Context, id string, charged, keep int64) (Allotment, error)
	Allotments(ctx context.Context, campaign string) ([]Allotment, error)
	// OpenAllotments gives a ceiling with its allotments that are not released,
	// in order of grant: both of one moment. ErrNotFound.
	OpenAllotments(ctx context.Context, ceiling string, funds Funds) (Ceiling, []Allotment, error)
	// CampaignWeight is the running sum of what a campaign's allotments weigh
	// against its cap (Allotment.Weight), 0 where there are none.
	CampaignWeight(ctx context.Context, campaign string, funds Funds) (int64, error)

	// Enqueue gives the campaign of a a place in the queue of a's ceiling, behind
	// all that wait already; it has one place there, and keeps it when it asks
	// again under the same fence, also for another allotment. The fence of ctx
	// says whose lease keeps the ticket alive: ErrInvalid without one. Dead
	// tickets of the ceiling are removed. ErrNotFound without the ceiling.
	Enqueue(ctx context.Context, a Allotment) (Ticket, error)
	// Dequeue gives the place of a campaign up; without one it is a no-op.
	Dequeue(ctx context.Context, ceiling string, funds Funds, campaign string) error
	// Queue lists the live tickets of a ceiling, first come first.
	Queue(ctx context.Context, ceiling string, funds Funds) ([]Ticket, error)
	// Ledger lists rows in order, after row n (exclusive), at most limit (0: all).
	Ledger(ctx context.Context, after int64, limit int) ([]LedgerRow, error)

	// PutCampaign stores a campaign; equal is a no-op, different ErrExists.
	// Status and totals are not compared: SetCampaignStatus changes them (nil
	// totals keep the last).
	PutCampaign(ctx context.Context, c Campaign) error
	SetCampaignStatus(ctx context.Context, id, status string, totals []byte) error
	Campaign(ctx context.Context, id string) (Campaign, error)      // ErrNotFound
	Campaigns(ctx context.Context, name string) ([]Campaign, error) // "" lists all; oldest first

	// PutTrial inserts or updates a trial record. A record with a terminal
	// status never changes (ErrConflict if it would). ErrNotFound without its
	// campaign.
	PutTrial(ctx context.Context, t Trial) error
	Trials(ctx context.Context, campaign string) ([]Trial, error) // by Order, Arm

	// PutTrace stores the exported trace of a trial; equal is a no-op,
	// different ErrExists. Trace is ErrNotFound when absent.
	PutTrace(ctx context.Context, campaign, key string, digest string, content []byte) error
	Trace(ctx context.Context, campaign, key string) (digest string, content []byte, err error)

	// AcquireLease takes a free or expired lease (generation +1) or renews one
	// with the same token. ErrExists (held by another: Lease says who). Times
	// are the store's own. ReleaseLease frees it if token still owns it;
	// ErrLeaseLost otherwise.
	AcquireLease(ctx context.Context, name, token, owner string, ttl time.Duration) (Lease, error)
	RenewLease(ctx context.Context, name, token string, ttl time.Duration) (Lease, error)
	ReleaseLease(ctx context.Context, name, token string) error
	// KeepLease renews a lease that still bears the token, under its
	// generation, even when it has run out: nobody has taken it since.
	// ErrLeaseLost otherwise. It is for owners whose writes are fenced.
	KeepLease(ctx context.Context, name, token string, ttl time.Duration) (Lease, error)
	// BreakLease frees a lease whose holder provably runs no more, live or not,
	// provided it still has this generation (ErrLeaseLost otherwise, so that a
	// later holder is never the one who loses it). A free one is left alone.
	BreakLease(ctx context.Context, name string, generation int64) error
	// Leases lists the leases that are live now by the store's clock, by name.
	Leases(ctx context.Context) ([]Lease, error)

	// AppendSeal appends to the hash-chained seal log; SealLog lists it.
	// AppendSealAfter appends only if the digest of the last row is still head
	// ("" for an empty log), and else is ErrConflict: whoever decided by reading
	// the log reads it again.
	AppendSeal(ctx context.Context, kind string, body []byte) (SealRow, error)
	AppendSealAfter(ctx context.Context, head, kind string, body []byte) (SealRow, error)
	SealLog(ctx context.Context) ([]SealRow, error)
}

// Store is a whole store.
type Store interface {
	Rooms
	Records
	// Stats counts what the database did since it was opened.
	Stats(ctx context.Context) (Stats, error)
	// Close waits for work under way, then frees the store.
	Close() error
}

// Stats of one open store.
type Stats struct {
	Commits int64 // database transactions that wrote
	Writes  int64 // logical writes that shared them
	Schema  int
	// LongestWait is the longest that a write waited from the request to the
	// answer; 0 when the store was given no clock to measure it with.
	LongestWait time.Duration
	Detail      map[string]string // driver, pragmas, URL without secrets
}

// Ceiling is an account that allotments are drawn from.
type Ceiling struct {
	Name     string
	Funds    Funds
	Limit    int64
	Charged  int64
	Held     int64
	MaxSum   int64 // greatest charged+held ever
	Halted   bool
	Overruns []string // allotments whose overrun is not acknowledged
}

// Available is Limit − Charged − Held.
func (c Ceiling) Available() int64 { return c.Limit - c.Charged - c.Held }

// Allotment is a sum held on a ceiling for some trials.
type Allotment struct {
	ID       string
	Ceiling  string
	Funds    Funds
	Campaign string
	Sum      int64
	Released bool
	Charged  int64 // at release
	Kept     int64 // still held after release
	// CampaignCap limits charged+held of all allotments of the campaign (0: no
	// cap); ErrExhausted when it would be passed.
	CampaignCap int64
}

// LedgerRow is one change of a ceiling's account. charged+held ≤ limit at
// every row, or exceeded exactly by overruns.
type LedgerRow struct {
	N            int64
	Ceiling      string
	Funds        Funds
	Kind         string // ceiling, allot, release, grant, overrun, ack
	Ref          string // allotment or acknowledged operation
	Campaign     string
	DeltaCharged int64
	DeltaHeld    int64
	Limit        int64 // after
	Charged      int64 // after
	Held         int64 // after
}

// Campaign is a stored campaign.
type Campaign struct {
	ID           string // c_ + digest of the resolved plan with code version
	Name         string
	PlanDigest   string // identity without code version
	Registration string // digest of the registration record
	Plan         []byte // canonical JSON of the resolved plan
	Status       string // running, done, stopped, cancelled
	Totals       []byte // run document as last written
	CreatedSeq   int64  // order of creation, given by the store
}

// Trial is one planned run of one case in one arm.
type Trial struct {
	Campaign    string
	Key         string // case/arm/trial
	Order       int    // place of its triple in the schedule
	Arm         string
	Case        string
	Index       int
	Room        string
	Allotment   string
	Status      string // planned, running, closed, not_run
	Termination string
	TraceDigest string
	Money       engine.Money
}

// Lease is an exclusive right with a fencing token.
type Lease struct {
	Name       string
	Token      string
	Owner      string
	Generation int64
	ExpiresAt  time.Time
}

// SealRow is one row of the seal log. Digest covers the others.
type SealRow struct {
	N      int64  `json:"n"`
	Kind   string `json:"kind"`
	Body   []byte `json:"body"`
	Prev   string `json:"prev"`
	Digest string `json:"digest"`
}
