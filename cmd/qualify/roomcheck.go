package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// checkBeside verifies what a closed room of a trial holds that neither its chain
// nor its trace tells: times and acknowledgements of operations, places of
// effects, limits, and the messages that wait to be delivered, each of which some
// revision sent.
func checkBeside(h *store.Head, rows []store.Row, ops []store.Op, effects []store.Effect, outbox []store.OutboxEntry, limit int64) error {
	acknowledged := false
	for i := range ops {
		o := &ops[i]
		acknowledged = acknowledged || o.Acknowledged
		switch {
		case o.Acknowledged && !o.Overran():
			return fmt.Errorf("operation %s: an overrun is acknowledged, and there was none", o.ID)
		case o.DeadlineUS != 0:
			return fmt.Errorf("operation %s: has a deadline, which no version of this tool sets", o.ID)
		case o.DispatchedAtUS != 0 && (o.Receipt == nil || o.DispatchedAtUS != o.Receipt.StartUS):
			return fmt.Errorf("operation %s: was dispatched at another time than its receipt says", o.ID)
		}
	}
	places := map[string]int{}
	for i := range effects {
		e := &effects[i]
		if e.N != places[e.Op] {
			return fmt.Errorf("effect %d of operation %s stands at place %d", e.N, e.Op, places[e.Op])
		}
		places[e.Op]++
	}
	if !acknowledged { // whoever acknowledges may grant more
		if h.Money.Limit != limit {
			return fmt.Errorf("its limit is %s, that of the trial %s", usd(h.Money.Limit), usd(limit))
		}
		for i := range rows {
			var e struct{ Money engine.Money }
			if err := json.Unmarshal(rows[i].Event, &e); err != nil || e.Money.Limit != limit {
				return fmt.Errorf("revision %d: its limit is %s, that of the trial %s", rows[i].Rev, usd(e.Money.Limit), usd(limit))
			}
		}
	}
	for i := range outbox {
		if !sent(rows, &outbox[i]) {
			return fmt.Errorf("message %s waits to be delivered, and revision %d did not send it so", outbox[i].ID, outbox[i].Rev)
		}
	}
	return nil
}

// sent reports whether the revision that a message names sent it, to the byte.
func sent(rows []store.Row, m *store.OutboxEntry) bool {
	if m.Rev < 0 || m.Rev >= int64(len(rows)) {
		return false
	}
	var commands []engine.Command
	if json.Unmarshal(rows[m.Rev].Commands, &commands) != nil {
		return false
	}
	for i := range commands {
		if say := commands[i].Say; say != nil && say.ID == m.ID {
			body, err := engine.Canonical(say)
			return err == nil && bytes.Equal(body, m.Body)
		}
	}
	return false
}
