package campaigns

import (
	"context"
	"errors"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
)

// overtaken is a store to whose seal log others append just before we do.
type overtaken struct {
	store.Store
	by    func(context.Context) error
	times int
}

func (o *overtaken) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	if o.times > 0 {
		o.times--
		if err := o.by(ctx); err != nil {
			return store.SealRow{}, err
		}
	}
	return o.Store.AppendSealAfter(ctx, head, kind, body)
}

// TestQ4_ARegistrationFollowsWhatWasRead: rows of others that come between make
// seal read the log again; where one of them is the registration itself, as when
// another store shares the log, it is not sealed twice.
func TestQ4_ARegistrationFollowsWhatWasRead(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	for _, tc := range []struct {
		what        string
		times, rows int
		same        bool
		err         error
	}{
		{"nobody", 0, 1, false, nil},
		{"a row of others", 2, 3, false, nil},
		{"the registration itself", 1, 1, true, nil},
		{"rows without end", mostTries, mostTries, false, store.ErrConflict},
	} {
		st := memStore(t)
		o := &overtaken{Store: st, times: tc.times, by: func(ctx context.Context) error {
			if tc.same {
				return (&Runner{Plan: p, Store: st}).seal(ctx)
			}
			_, err := st.AppendSeal(ctx, "use", []byte("{}"))
			return err
		}}
		if err := (&Runner{Plan: p, Store: o}).seal(t.Context()); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v", tc.what, err)
		}
		log, err := st.SealLog(t.Context())
		if err != nil || len(log) != tc.rows || (registeredBy(log, p.ID, p.Registration) != nil) != (tc.err == nil) {
			t.Errorf("%s: %d rows, want %d, %v", tc.what, len(log), tc.rows, err)
		}
		if registeredBy(log, p.ID, "") != nil {
			t.Errorf("%s: no digest is the digest of the registration", tc.what)
		}
	}
}
