package archive

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// roomDoc is rooms/KEY.json.
type roomDoc struct {
	Bodies  int            `json:"bodies"` // lines of bodies/KEY.jsonl; 0 when bodies are withheld
	Effects []store.Effect `json:"effects,omitempty"`
	Head    headDoc        `json:"head"`
	Ops     []opDoc        `json:"ops,omitempty"`
	Outbox  []outboxDoc    `json:"outbox,omitempty"`
	Rows    []rowDoc       `json:"rows,omitempty"`
}

type headDoc struct {
	Allotment   string       `json:"allotment"`
	Closed      bool         `json:"closed"`
	ClosedAtUS  int64        `json:"closed_at_us"`
	Digest      string       `json:"digest"`
	Funds       store.Funds  `json:"funds"`
	Halted      bool         `json:"halted"`
	Machine     string       `json:"machine"`
	Money       engine.Money `json:"money"`
	Rev         int64        `json:"rev"`
	Room        string       `json:"room"`
	Salt        []byte       `json:"salt,omitempty"` // base64; withheld with the bodies
	StateDigest string       `json:"state_digest"`
	Termination string       `json:"termination"`
}

func headDocOf(h *store.Head) headDoc {
	return headDoc{
		Room: h.Room, Rev: h.Rev, Digest: h.Digest, StateDigest: h.StateDigest, Money: h.Money, Funds: h.Funds, Halted: h.Halted,
		Closed: h.Closed, Termination: h.Termination, ClosedAtUS: h.ClosedAtUS, Salt: h.Salt, Machine: h.Machine, Allotment: h.Allotment,
	}
}

func (d *headDoc) head() store.Head {
	return store.Head{
		Room: d.Room, Rev: d.Rev, Digest: d.Digest, StateDigest: d.StateDigest, Money: d.Money, Funds: d.Funds, Halted: d.Halted,
		Closed: d.Closed, Termination: d.Termination, ClosedAtUS: d.ClosedAtUS, Salt: d.Salt, Machine: d.Machine, Allotment: d.Allotment,
	}
}

type rowDoc struct {
	Commands       json.RawMessage `json:"commands"`
	CommandsDigest string          `json:"commands_digest"`
	Digest         string          `json:"digest"`
	Event          json.RawMessage `json:"event"`
	Machine        string          `json:"machine"`
	Prev           string          `json:"prev"`
	Rev            int64           `json:"rev"`
	StateDigest    string          `json:"state_digest"`
}

func rowDocOf(r *store.Row) (rowDoc, error) {
	event, err := rawJSON("the event", r.Event)
	if err != nil {
		return rowDoc{}, err
	}
	commands, err := rawJSON("the list of commands", r.Commands)
	if err != nil {
		return rowDoc{}, err
	}
	if event == nil || commands == nil {
		return rowDoc{}, fmt.Errorf("event or commands are empty")
	}
	return rowDoc{
		Rev: r.Rev, Machine: r.Machine, Event: event, Commands: commands, CommandsDigest: r.CommandsDigest, StateDigest: r.StateDigest,
		Prev: r.Prev, Digest: r.Digest,
	}, nil
}

func (d *rowDoc) row() store.Row {
	return store.Row{
		Rev: d.Rev, Machine: d.Machine, Event: d.Event, Commands: d.Commands, CommandsDigest: d.CommandsDigest, StateDigest: d.StateDigest,
		Prev: d.Prev, Digest: d.Digest,
	}
}

type opDoc struct {
	Acknowledged   bool                  `json:"acknowledged"`
	Agent          string                `json:"agent"`
	Charged        int64                 `json:"charged"`
	DeadlineUS     int64                 `json:"deadline_us"`
	DispatchedAtUS int64                 `json:"dispatched_at_us"`
	ID             string                `json:"id"`
	Key            engine.OpKey          `json:"key"`
	Ordinal        int                   `json:"ordinal"`
	Receipt        *receiptDoc           `json:"receipt,omitempty"`
	Reconciled     *store.Reconciliation `json:"reconciled,omitempty"`
	Request        json.RawMessage       `json:"request,omitempty"`
	RequestDigest  string                `json:"request_digest"`
	Reserved       int64                 `json:"reserved"`
	Rev            int64                 `json:"rev"`
	Role           string                `json:"role"`
	Status         store.OpStatus        `json:"status"`
	Task           string                `json:"task"`
	Tool           string                `json:"tool"`
}

// receiptDoc is a receipt inside its operation, whose id and request it repeats
// in stores.
type receiptDoc struct {
	Charged     int64           `json:"charged"`
	FinishUS    int64           `json:"finish_us"`
	Outcome     store.Outcome   `json:"outcome"`
	Result      json.RawMessage `json:"result,omitempty"`
	StartUS     int64           `json:"start_us"`
	Usage       *engine.Usage   `json:"usage,omitempty"`
	UsageSource string          `json:"usage_source"`
}

func opDocOf(o *store.Op) (opDoc, error) {
	request, err := rawJSON("the request", o.Request)
	if err != nil {
		return opDoc{}, err
	}
	d := opDoc{
		ID: o.ID, Key: o.Key, Rev: o.Rev, Ordinal: o.Ordinal, Agent: o.Agent, Role: o.Role, Task: o.Task, Tool: o.Tool, Request: request,
		RequestDigest: o.RequestDigest, Reserved: o.ReservedMicros, DeadlineUS: o.DeadlineUS, Status: o.Status, Charged: o.ChargedMicros,
		Reconciled: o.Reconciled, Acknowledged: o.Acknowledged, DispatchedAtUS: o.DispatchedAtUS,
	}
	r := o.Receipt
	if r == nil {
		return d, nil
	}
	if r.Op != o.ID || r.RequestDigest != o.RequestDigest {
		return opDoc{}, fmt.Errorf("the receipt is of another operation or request")
	}
	result, err := rawJSON("the result", r.Result)
	if err != nil {
		return opDoc{}, err
	}
	d.Receipt = &receiptDoc{
		Outcome: r.Outcome, StartUS: r.StartUS, FinishUS: r.FinishUS, Charged: r.ChargedMicros, UsageSource: r.UsageSource, Usage: r.Usage,
		Result: result,
	}
	return d, nil
}

func (d *opDoc) op() store.Op {
	o := store.Op{
		ID: d.ID, Key: d.Key, Rev: d.Rev, Ordinal: d.Ordinal, Agent: d.Agent, Role: d.Role, Task: d.Task, Tool: d.Tool, Request: d.Request,
		RequestDigest: d.RequestDigest, ReservedMicros: d.Reserved, DeadlineUS: d.DeadlineUS, Status: d.Status, ChargedMicros: d.Charged,
		Reconciled: d.Reconciled, Acknowledged: d.Acknowledged, DispatchedAtUS: d.DispatchedAtUS,
	}
	if r := d.Receipt; r != nil {
		o.Receipt = &store.Receipt{
			Op: d.ID, RequestDigest: d.RequestDigest, Outcome: r.Outcome, StartUS: r.StartUS, FinishUS: r.FinishUS, ChargedMicros: r.Charged,
			UsageSource: r.UsageSource, Usage: r.Usage, Result: r.Result,
		}
	}
	return o
}

type outboxDoc struct {
	Body json.RawMessage `json:"body"`
	ID   string          `json:"id"`
	Rev  int64           `json:"rev"`
}

func outboxDocOf(e *store.OutboxEntry) (outboxDoc, error) {
	body, err := rawJSON("the message", e.Body)
	if err == nil && body == nil {
		err = fmt.Errorf("the message is empty")
	}
	return outboxDoc{ID: e.ID, Rev: e.Rev, Body: body}, err
}

func (d *outboxDoc) entry() store.OutboxEntry {
	return store.OutboxEntry{ID: d.ID, Rev: d.Rev, Body: d.Body}
}
