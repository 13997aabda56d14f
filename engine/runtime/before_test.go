package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// watching looks at the store, and writes to it, in the middle of every call.
type watching struct {
	model.Provider
	store store.Store
	room  string
	calls chan error
}

func (w *watching) Call(ctx context.Context, c model.Call) (model.Reply, error) {
	w.calls <- w.look(ctx, c.Op)
	return w.Provider.Call(ctx, c)
}

func (w *watching) Lookup(ctx context.Context, c model.Call) (model.Found, error) {
	f, ok := w.Provider.(model.Finder)
	if !ok {
		return model.Found{}, errors.New("cannot be asked")
	}
	return f.Lookup(ctx, c)
}

func (w *watching) look(ctx context.Context, op string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	l, err := w.store.Load(ctx, w.room)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(l.Ops, func(o store.Op) bool { return o.ID == op })
	switch {
	case i < 0:
		return fmt.Errorf("operation %s is called and not stored", op)
	case l.Ops[i].Status != store.OpDispatched || l.Ops[i].ReservedMicros <= 0 || l.Ops[i].Receipt != nil:
		return fmt.Errorf("operation %s is called in state %s with %d reserved", op, l.Ops[i].Status, l.Ops[i].ReservedMicros)
	case l.Head.Money.Held < l.Ops[i].ReservedMicros:
		return fmt.Errorf("operation %s is called, but the room holds %d of %d", op, l.Head.Money.Held, l.Ops[i].ReservedMicros)
	}
	return w.store.CreateRoom(ctx, storetest.NewRoom("beside/"+op, 1))
}

// R36, R71, I2: when a call is made its reservation and its dispatch mark are
// stored, and no transaction is open: another room can be written meanwhile.
func TestR36_R71_CallsAreMadeAfterTheirCommitAndOutsideATransaction(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New(memory.Options{}) },
		"sqlite": openSQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, j := open(t), &model.MemoryJournal{}
			calls := make(chan error, 100)
			s := golden()
			s.change = func(c *runtime.Config) {
				c.Provider = &watching{Provider: c.Provider, store: st, room: c.Room, calls: calls}
			}
			if _, err := runtime.Run(t.Context(), s.config(t, st, j)); err != nil {
				t.Fatal(err)
			}
			close(calls)
			n := 0
			for err := range calls {
				n++
				if err != nil {
					t.Error(err)
				}
			}
			if n == 0 || n != j.Total() {
				t.Errorf("%d calls were watched, %d were made", n, j.Total())
			}
		})
	}
}
