package store

import (
	"context"
	"fmt"
)

// Fence is the right under which a process writes: the lease it works under
// and its token in it.
type Fence struct {
	Name  string // of the lease
	Token string
}

type fenceKey struct{}

// WithFence returns a context whose writes, to rooms and records alike, are
// refused with ErrLeaseLost once the lease no longer bears the token. The store
// judges that inside the transaction of the write, so that whoever has taken
// the lease over never meets a write of the one before.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// FenceOf returns the fence of a context, if it has one.
func FenceOf(ctx context.Context) (Fence, bool) {
	f, ok := ctx.Value(fenceKey{}).(Fence)
	return f, ok
}

// Check is ErrLeaseLost unless l, the lease as it stands, bears the fence's
// token. Expiry does not matter: a lease that nobody has taken since still
// keeps all others out.
func (f Fence) Check(l Lease) error {
	if f.Token == "" || l.Token != f.Token {
		return fmt.Errorf("lease %s is no longer held: %w", f.Name, ErrLeaseLost)
	}
	return nil
}
