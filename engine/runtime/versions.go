package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Unfolded is a run of rows whose commands and states could not be recomputed,
// because the machine of their version, or the way from the version before
// them, is not at hand. All else about them was verified.
type Unfolded struct {
	Machine     string // version that folded them
	First, Last int64  // revisions
}

// machineOf makes the machine of a version, at its very beginning; nil when it
// is not at hand.
func (f Folds) machineOf(version string) (engine.Machine, error) {
	m, err := f.Machine()
	if err == nil && m.Version() != version {
		old := f.Machines[version]
		if old == nil {
			return nil, nil
		}
		if m, err = old(); err == nil && m.Version() != version {
			err = fmt.Errorf("it says that it is %s", m.Version())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make machine %s: %w", version, err)
	}
	return m, nil
}

// current is the version of the machine that new rows are folded by.
func (f Folds) current() (string, error) {
	m, err := f.Machine()
	if err != nil {
		return "", fmt.Errorf("make machine: %w", err)
	}
	return m.Version(), nil
}

// turnTo sees to it that the machine is of the version and stands after row
// r.rev: the one that stands there, the one whose state is stored, or an upgrade
// from either. It reports false, and drops the machine, where there is no way.
func (r *rebuilt) turnTo(ctx context.Context, version string) (bool, error) {
	if r.machine != nil && r.version == version {
		return true, nil
	}
	before, from := r.machine, r.version
	r.machine, r.version = nil, version
	m, err := r.folds.machineOf(version)
	if err != nil || m == nil {
		return false, err
	}
	if r.rev < 0 {
		r.machine = m
		return true, nil
	}
	var snapshot []byte
	switch {
	case before != nil:
		if snapshot, err = guarded("machine", before.Snapshot); err != nil {
			return false, fmt.Errorf("machine %s, snapshot: %w", from, err)
		}
	case r.parked != nil && r.parked.Rev == r.rev:
		snapshot, from = r.parked.State, r.parked.Machine
	default:
		return false, nil
	}
	if ok, err := restoreFrom(m, from, snapshot); !ok || err != nil {
		return false, err
	}
	if h, ok := m.(engine.TextHolder); ok {
		if err := r.texts.fetch(ctx, h.Texts()); err != nil {
			return false, fmt.Errorf("machine %s, snapshot of revision %d: %w", version, r.rev, err)
		}
	}
	r.machine = m
	return true, nil
}

// restoreFrom gives m the state of a snapshot, upgraded where another version
// made it. It reports false when m has no upgrade from there. An
// *unusableError says that the machine does not take the snapshot.
func restoreFrom(m engine.Machine, version string, snapshot []byte) (bool, error) {
	if version != m.Version() {
		u, ok := m.(engine.Upgrader)
		if !ok {
			return false, nil
		}
		up, err := guarded("machine", func() ([]byte, error) { return u.Upgrade(version, bytes.Clone(snapshot)) })
		if err != nil {
			return false, engine.Errorf(engine.CodeVersionMismatch, "machine %s has no upgrade from %s: %s", m.Version(), version, oneLine(err.Error()))
		}
		snapshot = up
	}
	_, err := guarded("machine", func() (struct{}, error) { return struct{}{}, m.Restore(snapshot) })
	if err != nil {
		return false, &unusableError{fmt.Errorf("machine %s, restore: %w", m.Version(), err)}
	}
	return true, nil
}

// stepOf folds the event of a row by the machine of the row's version, or, where
// that is not to be had, takes the commands that the row holds for what the
// machine said.
func (r *rebuilt) stepOf(ctx context.Context, row *store.Row, ev engine.Event) (*step, error) {
	ok, err := r.turnTo(ctx, row.Machine)
	if err != nil {
		return nil, err
	}
	if ok {
		return r.fold(ctx, ev)
	}
	if n := len(r.unfolded); n > 0 && r.unfolded[n-1].Machine == row.Machine && r.unfolded[n-1].Last == row.Rev-1 {
		r.unfolded[n-1].Last = row.Rev
	} else {
		r.unfolded = append(r.unfolded, Unfolded{Machine: row.Machine, First: row.Rev, Last: row.Rev})
	}
	st := &step{event: ev, row: *row}
	if st.row.Event, err = engine.Canonical(ev); err != nil {
		return nil, fmt.Errorf("event %s: %w", ev.ID, err)
	}
	var rows []rowCommand
	if err := json.Unmarshal(row.Commands, &rows); err != nil {
		return nil, engine.Errorf(engine.CodeConflict, "the commands cannot be read: %v", err)
	}
	for i := range rows {
		c := rows[i].Command
		if rows[i].Call != nil {
			if c.Call, err = r.reissue(ctx, st, i, rows[i].Call); err != nil {
				return nil, err
			}
		}
		if err := checkContent(&c); err != nil {
			return nil, engine.Errorf(engine.CodeConflict, "command %d: %v", i+1, err)
		}
		if err := r.texts.fetch(ctx, c.Texts()); err != nil {
			return nil, err
		}
		st.commands = append(st.commands, c)
	}
	return st, nil
}

// reissue makes the operation of a call that a row holds. Its request is at hand
// while the store keeps it, that is until the operation settles.
func (r *rebuilt) reissue(ctx context.Context, st *step, command int, row *rowCall) (*engine.Call, error) {
	call := row.Call
	o := r.issue(st, command, &call, row.RequestDigest)
	if o == nil {
		return nil, engine.Errorf(engine.CodeConflict, "%v", issuedBefore(call.Key))
	}
	if op := r.stored[o.id]; op != nil && len(op.Request) > 0 {
		whole, err := parseCall(op.Request, o.digest)
		if err != nil {
			return nil, err
		}
		if err := r.texts.fetch(ctx, callTexts(whole)); err != nil {
			return nil, err
		}
		o.call, o.request = whole, op.Request
	}
	return &call, nil
}

// parseCall reads a sealed call and compares it with its digest.
func parseCall(request []byte, digest string) (*engine.Call, error) {
	if engine.Digest(request) != digest {
		return nil, engine.Errorf(engine.CodeConflict, "a stored request has another digest than its operation")
	}
	var call engine.Call
	if err := json.Unmarshal(request, &call); err != nil {
		return nil, fmt.Errorf("a stored request: %w", err)
	}
	return &call, nil
}

func callTexts(c *engine.Call) []*engine.Text {
	cmd := engine.Command{Call: c}
	return cmd.Texts()
}
