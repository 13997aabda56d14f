package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
)

// notifier hands the outbox of one room to the Notifier port.
type notifier struct {
	room               Ref
	ports              *Ports
	owner, coordinator string
}

var _ runtime.Notifier = (*notifier)(nil)

// Notify implements runtime.Notifier. Authority is read again at this sink
// (R12): what somebody said who may not act any more is delivered as an empty
// notification, so that its place and identity are kept.
func (n *notifier) Notify(ctx context.Context, _ string, say engine.Say) error {
	out := Notification{ID: say.ID, Room: n.room, From: say.From, To: say.To, Status: say.Status, Text: say.Text.S}
	if say.From != n.coordinator && say.From != n.owner {
		now, err := n.ports.Authority.Eligible(ctx, n.room)
		if err != nil {
			return fmt.Errorf("who is authorized: %w", err)
		}
		if !slices.Contains(now, say.From) {
			out.Withheld, out.Text = true, ""
		}
	}
	return n.ports.Notifier.Notify(ctx, out)
}
