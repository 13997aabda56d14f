package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

func parse(text string, v any) error { return json.Unmarshal([]byte(text), v) }

// Environment of a child process: where it works, and in which kind of call it
// is killed.
const (
	childDir  = "QUALIFY_HOST_TEST_DIR"
	childKill = "QUALIFY_HOST_TEST_KILL"
)

// child is a host of its own process over the SQLite file of a directory. It
// is killed by SIGKILL in the middle of the first call of a kind.
func child(dir, kill string) error {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, filepath.Join(dir, "store.db"), sqlite.Options{Ledgers: sqlite.Ledgers()})
	if err != nil {
		return err
	}
	j, err := model.OpenFileJournal(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	h := newHouse()
	die := func(kind string) error {
		if !strings.HasPrefix(kill, kind) || kill == "" {
			return nil
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := self.Kill(); err != nil {
			return err
		}
		select {} // the kill is on its way
	}
	h.during = func(_ context.Context, c host.Call) (*host.Result, error) {
		if err := j.Record(c.Op, c.Format); err != nil {
			return nil, err
		}
		kind, _, _ := strings.Cut(c.Format, "/")
		return nil, die(kind + " " + c.Participant)
	}
	h.deliver = func(n host.Notification) error {
		f, err := os.OpenFile(filepath.Join(dir, "mail"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, n.ID)
		return errors.Join(err, f.Close(), die("notify"))
	}
	s, err := host.New(host.Config{Store: st, Ports: h.ports(), Process: fmt.Sprint("process ", os.Getpid()), Lease: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	for {
		done, err := s.Tick(ctx, tenant, room)
		if err != nil {
			return err
		}
		if !done.Busy {
			return errors.Join(st.Close(), j.Close())
		}
		time.Sleep(10 * time.Millisecond) // the dead one's lease runs out
	}
}

func spawn(t *testing.T, dir, kill string) (killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childKill+"="+kill)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return true
		}
	}
	t.Fatalf("child: %v\n%s", err, out)
	return false
}

// Real processes that really die in the middle of each kind of call, on
// SQLite: another process takes the room over when the lease has run out, no
// operation is called twice, the hold of the one in doubt stays, and a
// notification comes again under its id (R45, R48, R49, R57).
func TestR49_KilledDuringEachKindOfCall(t *testing.T) {
	t.Parallel()
	for _, kill := range []string{"plan coordinator", "turn clerk", "turn editor", "review auditor", "notify"} {
		t.Run(kill, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			dir := t.TempDir()
			path := filepath.Join(dir, "store.db")
			if _, err := sqlite.Migrate(ctx, path); err != nil {
				t.Fatal(err)
			}
			st, err := sqlite.Open(ctx, path, sqlite.Options{Ledgers: sqlite.Ledgers()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = st.Close() }()
			h := newHouse()
			s, err := host.New(host.Config{Store: st, Ports: h.ports()})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Open(ctx, tenant, room, definition()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.AcceptEvent(ctx, tenant, room, "m1"); err != nil {
				t.Fatal(err)
			}
			if !spawn(t, dir, kill) {
				t.Fatal("the child was not killed")
			}
			if spawn(t, dir, "") {
				t.Fatal("killed without a reason")
			}
			j, err := model.OpenFileJournal(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = j.Close() }()
			if again := j.Repeated(); len(again) > 0 {
				t.Errorf("operations called twice: %v", again)
			}
			v, err := s.Snapshot(ctx, tenant, room)
			if err != nil {
				t.Fatal(err)
			}
			var uncertain []host.OperationView
			for _, o := range v.Operations {
				if o.Status == store.OpUncertain {
					uncertain = append(uncertain, o)
				}
			}
			lost := int64(2_000)
			if kill == "notify" {
				lost = 0
			}
			if v.Money.Unknown != lost || v.Money.Held != lost || len(uncertain) != int(lost/2_000) || len(uncertain) != len(v.Operations) {
				t.Errorf("%+v, %+v", v.Money, v.Operations)
			}
			// Only a review is asked for again by itself; a plan and a
			// specialist's work wait for proof (R28, R66).
			ends := kill == "notify" || strings.HasPrefix(kill, "review")
			if done := len(v.Planner.Objectives) > 0 && v.Planner.Objectives[0].Status == planner.StatusCompleted; done != ends {
				t.Errorf("%+v", v.Planner)
			}
			if strings.HasPrefix(kill, "turn") && !slices.Equal(v.Planner.Objectives[0].BlockedBy, []string{planner.BlockedByUncertain}) {
				t.Errorf("blocked by %v", v.Planner.Objectives[0].BlockedBy)
			}
			runs, err := st.Runs(ctx, "planner/acme/post")
			if err != nil || len(runs) != j.Total() {
				t.Errorf("%d runs, %d calls, %v", len(runs), j.Total(), err)
			}
			mail, err := os.ReadFile(filepath.Join(dir, "mail"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Fields(string(mail))
			if kill == "notify" && (len(lines) < 2 || lines[0] != lines[1]) {
				t.Errorf("the notification did not come again under its id: %v", lines)
			}
			// The doubt is ended by proof, and by nothing else.
			if lost > 0 {
				h.evidence = func(host.Operation) (host.Evidence, error) {
					return host.Evidence{Outcome: engine.ReconciledExecuted, Micros: ptr(321), Proof: "the server's log"}, nil
				}
				if _, err := s.Reconcile(ctx, tenant, room, order("k"), uncertain[0].Op); err != nil {
					t.Fatal(err)
				}
				after, err := s.Snapshot(ctx, tenant, room)
				if err != nil || after.Money.Unknown != 0 || after.Money.Charged != v.Money.Charged+321 {
					t.Errorf("%+v %v", after.Money, err)
				}
			}
		})
	}
}
