package runtime

import (
	"context"
	"errors"
	"sync"
)

// ErrAuthorityLost is the cause with which the context of a call ends when its
// outcome would no longer be used with authority: the owner paused or
// cancelled, a newer plan took over, the agent lost its right, or another
// process has the room (R43, R67). A party that can stop does; what it has
// spent is charged all the same.
var ErrAuthorityLost = errors.New("the call has lost its authority")

// calls are the calls under way in this process that can be cut short. A nil
// *calls cuts none.
type calls struct {
	mu     sync.Mutex
	cancel map[string]context.CancelCauseFunc // by operation
	made   map[string]bool                    // operations that this process ever called for
}

func newCalls() *calls {
	return &calls{cancel: map[string]context.CancelCauseFunc{}, made: map[string]bool{}}
}

// begin is the context of a call. It ends with the call's authority, and with
// nothing else: a caller that goes away is no reason to stop (R43).
func (c *calls) begin(ctx context.Context, op string) context.Context {
	if c == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel[op], c.made[op] = cancel, true
	return ctx
}

// abort asks a call to stop. It reports whether the call was under way and had
// not been asked before.
func (c *calls) abort(op string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.cancel[op]
	if cancel == nil {
		return false
	}
	cancel(ErrAuthorityLost)
	c.cancel[op] = nil
	return true
}

// own reports that this process made the call.
func (c *calls) own(op string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[op]
}

// end frees the context of a call that has returned.
func (c *calls) end(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.cancel[op]; cancel != nil {
		cancel(nil)
	}
	delete(c.cancel, op)
}

// open lists the calls under way.
func (c *calls) open() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, len(c.cancel))
	for id := range c.cancel {
		ids = append(ids, id)
	}
	return ids
}
