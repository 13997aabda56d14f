package store

import (
	"context"

	"github.com/agentrooms/qualify/engine"
)

// Rooms is the port to event-sourced rooms. All methods are safe for
// concurrent use. A caller's context ends its wait, never a statement under
// way. Returned values are copies: changing one does not change the store.
type Rooms interface {
	// CreateRoom makes the room at revision -1 (no row yet) with its salt and
	// money limit. ErrExists.
	CreateRoom(ctx context.Context, r NewRoom) error

	// Load returns everything needed to rebuild the room: its head, the newest
	// snapshot, the rows after it, all operations with their receipts, and all
	// effects. ErrNotFound.
	Load(ctx context.Context, room string) (*Loaded, error)

	// LoadTail is Load for a restart, whose cost does not depend on what the
	// snapshot covers: with a snapshot, Rows begin with the snapshot's own row,
	// and Ops and Effects are left out (see LoadOps). Without one it returns
	// what Load does. ErrNotFound.
	LoadTail(ctx context.Context, room string) (*Loaded, error)

	// LoadOps returns the head, the named operations with their receipts, by
	// (Rev, Ordinal), and the effects of these, in one consistent state;
	// unknown ids are absent, and so are Rows and Snapshot. ErrNotFound.
	LoadOps(ctx context.Context, room string, ids []string) (*Loaded, error)

	// Rows lists rows after revision after (exclusive; -1 from the first),
	// ascending, at most limit (0: all), whether a snapshot covers them or
	// not. ErrNotFound.
	Rows(ctx context.Context, room string, after int64, limit int) ([]Row, error)

	// Commit appends one row under compare-and-set on head revision and head
	// digest, together with receipts, new operations with their reservations,
	// blobs, outbox and index entries, in one transaction. Receipts are
	// settled before new reservations are judged. A reservation the room
	// refuses is a result, not an error. ErrConflict (nothing written),
	// ErrReceiptMismatch, ErrExists (operation id, or an index entry with
	// another value), ErrNotFound, ErrClosed, ErrInvalid (a broken row or an
	// illegal move). Op.Rev, Op.Ordinal and OutboxEntry.Rev are the store's. An
	// operation without price is admitted always; one whose Status is refused
	// is stored so, and its Admission has no code.
	Commit(ctx context.Context, c Commit) (*Committed, error)

	// MarkDispatched records that the call is about to be made. ErrNotFound,
	// ErrAlreadyDispatched (also for a refused operation), ErrClosed.
	MarkDispatched(ctx context.Context, room, op string) error

	// PutReceipt stores and settles a receipt without a new row. An equal
	// receipt is a no-op; another one is ErrReceiptMismatch. Blobs ride along.
	// A closed room still takes it: a call that was made is always charged. An
	// operation that was never dispatched takes only a failed outcome without
	// charge, which releases it; other moves are ErrInvalid.
	PutReceipt(ctx context.Context, room string, r Receipt, blobs []Blob) error

	// PutEffect appends an effect record of a world, with its blobs. An equal
	// record (same Op and N) is a no-op; another one is ErrReceiptMismatch.
	// ErrNotFound without the operation, ErrClosed. Sealed texts are kept by
	// reference only.
	PutEffect(ctx context.Context, e Effect, blobs []Blob) error

	// Reconcile settles an operation of unknown outcome by proof: charged
	// replaces the hold (0 with released when it provably did not happen).
	// Equal repeats are no-ops, others ErrReceiptMismatch. The room's chain is
	// untouched.
	Reconcile(ctx context.Context, room, op string, r Reconciliation) error

	// GrantRoom sets a new total limit of a room and acknowledges overruns by
	// operation id; the halt is cleared when none is left (R39, R40). The
	// room's chain is untouched. ErrNotFound (no room, or no such overrun that
	// is not acknowledged), ErrBelowSpent under charged+held, ErrInvalid.
	GrantRoom(ctx context.Context, room string, total int64, ackOps []string) (Head, error)

	// PutSnapshot stores a snapshot of the head in place of the one before.
	// ErrConflict when rev is not the head or the digest of State is not the
	// head row's state digest.
	PutSnapshot(ctx context.Context, room string, s Snapshot) error

	// CloseRoom marks the room closed with a termination word; later commits
	// are ErrClosed. Closing again with the same word is a no-op.
	CloseRoom(ctx context.Context, room, termination string, atUS int64) error

	// Blobs returns the content of the named blobs; missing ones are absent
	// from the map.
	Blobs(ctx context.Context, room string, digests []string) (map[string][]byte, error)

	// Outbox lists undelivered entries of a room in order; Delivered marks one.
	Outbox(ctx context.Context, room string) ([]OutboxEntry, error)
	Delivered(ctx context.Context, room, id string) error

	// Lookup answers what a room must remember for ever: value by key in one
	// index space; missing keys are absent.
	Lookup(ctx context.Context, room, space string, keys []string) (map[string]string, error)

	// ListRooms lists rooms whose id starts with prefix, sorted by id.
	ListRooms(ctx context.Context, prefix string) ([]Head, error)
}

// NewRoom describes a room to create.
type NewRoom struct {
	Room      string       // unique in the store
	Salt      []byte       // of blob digests
	Money     engine.Money // Limit is used; micros
	Funds     Funds
	Machine   string // Machine.Version()
	Allotment string // allotment the room's money comes from; may be empty
}

// Funds says which money an account holds. Nothing mixes them.
type Funds string

// Kinds of funds.
const (
	FundsReal      Funds = "real"
	FundsSimulated Funds = "simulated"
)

// Head is the state of a room's chain and account.
type Head struct {
	Room        string
	Rev         int64  // revision of the newest row, -1 before the first
	Digest      string // digest of the newest row, "" before the first
	StateDigest string
	Money       engine.Money
	Funds       Funds
	Halted      bool
	Closed      bool
	Termination string
	ClosedAtUS  int64
	Salt        []byte
	Machine     string
	Allotment   string
}

// Row is one revision. Digest = RowDigest(row): it covers every other field.
type Row struct {
	Rev            int64  `json:"rev"`
	Machine        string `json:"machine"`         // machine version that folded the event
	Event          []byte `json:"event"`           // canonical JSON, texts by reference
	Commands       []byte `json:"commands"`        // canonical JSON, texts by reference, requests by digest
	CommandsDigest string `json:"commands_digest"` // SHA-256 of Commands
	StateDigest    string `json:"state_digest"`    // SHA-256 of the snapshot after the event
	Prev           string `json:"prev"`            // digest of the previous row, "" for the first
	Digest         string `json:"digest"`
}

// Commit is one compare-and-set append.
type Commit struct {
	Room       string
	ExpectRev  int64  // head revision it builds on
	ExpectHead string // head digest it builds on
	Row        Row    // Rev = ExpectRev+1, Prev = ExpectHead
	Ops        []Op   // new operations, status reserved unless ReservedMicros is 0 and free
	Receipts   []Receipt
	Blobs      []Blob
	Outbox     []OutboxEntry
	Index      []IndexEntry
}

// Committed tells what a commit did.
type Committed struct {
	Head       Head
	Admissions []Admission // one per Commit.Ops, in order
}

// Admission is the room's answer to one reservation.
type Admission struct {
	Op       string
	Reserved bool
	Code     string // BUDGET_EXHAUSTED or BUDGET_HALTED when not reserved
}

// OpStatus is the state of an operation (R9).
type OpStatus string

// Operation states. reserved → dispatched → settled_ok | settled_failed |
// uncertain; reserved → refused at commit or released; uncertain →
// settled_ok | settled_failed | released by reconciliation only.
const (
	OpReserved      OpStatus = "reserved"
	OpRefused       OpStatus = "refused"
	OpDispatched    OpStatus = "dispatched"
	OpSettledOK     OpStatus = "settled_ok"
	OpSettledFailed OpStatus = "settled_failed"
	OpUncertain     OpStatus = "uncertain"
	OpReleased      OpStatus = "released"
)

// Op is the only durable record of a call.
type Op struct {
	ID             string
	Key            engine.OpKey
	Rev            int64  // revision whose commit created it
	Ordinal        int    // position in that commit
	Agent          string // participant id
	Role           string // cost role
	Task           string
	Tool           string // tool operations
	Request        []byte // canonical JSON of the sealed engine.Call; kept while the operation is open
	RequestDigest  string // SHA-256 of Request
	ReservedMicros int64  // 0 for operations without price (tools)
	DeadlineUS     int64  // reserved for later use
	Status         OpStatus
	ChargedMicros  int64
	Receipt        *Receipt        // nil while open
	Reconciled     *Reconciliation // nil unless reconciled
	Acknowledged   bool            // its overrun was acknowledged by GrantRoom
	DispatchedAtUS int64           // trial time of dispatch as the runtime gave it in the receipt
}

// Outcome of a receipt.
type Outcome string

// Receipt outcomes.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeFailed  Outcome = "failed"
	OutcomeUnknown Outcome = "unknown" // the call may have happened; the hold stays
)

// Receipt is the durable result of one call: append-only, one per operation
// (R46). It carries all that the event needs.
type Receipt struct {
	Op            string        `json:"op"`
	RequestDigest string        `json:"request_digest"`
	Outcome       Outcome       `json:"outcome"`
	StartUS       int64         `json:"start_us"`  // trial time
	FinishUS      int64         `json:"finish_us"` // trial time
	ChargedMicros int64         `json:"charged"`   // what the settlement charges; 0 when Outcome is unknown
	UsageSource   string        `json:"usage_source,omitempty"`
	Usage         *engine.Usage `json:"usage,omitempty"`
	Result        []byte        `json:"result"` // canonical JSON of the event body to be, texts by reference

	// Fault is the id of the case fault that fired. It is kept inside Result;
	// stores neither write, return nor compare this field, runtime.Replay fills it.
	Fault string `json:"-"`
}

// Reconciliation is the proof that settles an uncertain operation (R47).
type Reconciliation struct {
	Executed      bool          `json:"executed"`
	ChargedMicros int64         `json:"charged"`
	Usage         *engine.Usage `json:"usage,omitempty"`
	UsageSource   string        `json:"usage_source,omitempty"`
	Proof         string        `json:"proof"`
}

// EffectState of an effect record.
type EffectState string

// Effect states.
const (
	EffectIntent    EffectState = "intent"
	EffectConfirmed EffectState = "confirmed"
	EffectRefuted   EffectState = "refuted"
)

// Effect is one record of a world's effect ledger (DESIGN §2). Op and N are
// its key: N counts records of one operation from 0 (intent, then outcome).
type Effect struct {
	Room       string      `json:"room"`
	Seq        int64       `json:"-"` // order in the room, given by the store
	Op         string      `json:"op"`
	N          int         `json:"n"`
	AtUS       int64       `json:"at_us"`
	Identity   string      `json:"identity"`
	Key        string      `json:"key,omitempty"` // idempotency key as sent; empty when not sent
	Tool       string      `json:"tool"`
	Target     string      `json:"target"`
	Agent      string      `json:"agent"`
	Args       engine.Text `json:"args"`
	State      EffectState `json:"state"`
	Suppressed bool        `json:"suppressed,omitempty"` // an earlier record with this key was returned instead
	Ack        string      `json:"ack,omitempty"`        // ok or lost
	Patch      engine.Text `json:"patch"`                // what changed in the world, JSON
	Result     engine.Text `json:"result"`               // what the tool answered or would have
}

// Blob is content to store.
type Blob struct {
	Digest  string
	Media   string
	Content []byte
}

// OutboxEntry is a message to deliver at least once (R57).
type OutboxEntry struct {
	ID   string
	Rev  int64
	Body []byte // canonical JSON of engine.Say, texts by reference
}

// IndexEntry is something a room remembers for ever; (Space, Key) is unique.
type IndexEntry struct {
	Space, Key, Value string
}

// Snapshot is a machine state at a revision. It shortens a restart; the rows
// stay the truth, and a room loses nothing without its snapshot.
type Snapshot struct {
	Rev     int64
	Machine string // version that State is of
	State   []byte // its digest is the row's StateDigest
	// Folds is what the runtime, world and owner have made of the rows up to
	// Rev; stores do not read it. Unlike State it holds content by value, so
	// whoever withholds content of a room must leave it out. Empty in the
	// snapshot of a closed room, and when world or owner cannot be stored.
	Folds []byte
}

// Loaded is a room as stored.
type Loaded struct {
	Head     Head
	Snapshot *Snapshot // nil when none
	Rows     []Row     // after the snapshot, or all; ascending
	Ops      []Op      // all, by (Rev, Ordinal)
	Effects  []Effect  // all, by Seq
}
