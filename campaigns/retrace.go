package campaigns

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Retrace rebuilds every revision of a seat's room from the store's rows and
// exports the trace they stand for. For a closed trial it gives the bytes that
// were exported when it closed, whatever process asks. Errors are those of
// runtime.Replay; rows of a machine that is not at hand are VERSION_MISMATCH.
func (p *Plan) Retrace(ctx context.Context, rooms store.Rooms, s Seat) ([]byte, error) {
	log, err := runtime.Replay(ctx, rooms, p.Room(s), p.Folds(s))
	if err != nil {
		return nil, fmt.Errorf("trial %s: %w", s.Key(), err)
	}
	if len(log.Unfolded) > 0 { // no trial is carried on by another machine
		u := log.Unfolded[0]
		return nil, fmt.Errorf("trial %s: %w", s.Key(), engine.Errorf(engine.CodeVersionMismatch,
			"revisions %d to %d are by machine %s, which is not at hand", u.First, u.Last, u.Machine))
	}
	b, _, err := p.export(s, log)
	return b, err
}

// export is the trace of a seat's history, written and as read back.
func (p *Plan) export(s Seat, log *runtime.History) ([]byte, *trace.Trace, error) {
	b, t, err := export(p.Header(s, log.Head.Machine), log, s.Case.FaultKindsByID())
	if err != nil {
		return nil, nil, fmt.Errorf("trial %s: %w", s.Key(), err)
	}
	return b, t, nil
}
