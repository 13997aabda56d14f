package runtime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// newer is the bot of a later version: it counts the events it has folded,
// which bot@1 does not, and takes over from bot@1.
type newer struct {
	*bot
	Since int `json:"since"`
}

func bot2() (engine.Machine, error) { return &newer{bot: newBot("a")}, nil }

func bot1() (engine.Machine, error) { return newBot("a"), nil }

func (n *newer) Version() string { return "bot@2" }

func (n *newer) Snapshot() ([]byte, error) { return engine.Canonical(n) }

func (n *newer) Restore(b []byte) error { return json.Unmarshal(b, n) }

func (n *newer) Handle(ev engine.Event) ([]engine.Command, error) {
	n.Since++
	return n.bot.Handle(ev)
}

func (n *newer) Upgrade(version string, snapshot []byte) ([]byte, error) {
	if version != "bot@1" {
		return nil, fmt.Errorf("nothing leads from %s to here", version)
	}
	var b bot
	if err := json.Unmarshal(snapshot, &b); err != nil {
		return nil, err
	}
	return engine.Canonical(&newer{bot: &b})
}

// stranger is a later version without a way from the earlier one.
type stranger struct{ *bot }

func (stranger) Version() string { return "bot@2" }

// upgraded is a room that bot@1 has begun and bot@2 goes on with, from the
// fourth snapshot on.
func upgraded(t testing.TB, st store.Store, j model.Journal) runtime.Config {
	t.Helper()
	s := chat(8)
	cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, 4)
	cfg.Machine = bot2
	return cfg
}

func machines(t testing.TB, rows []store.Row) (first, second string, at int64) {
	t.Helper()
	first = rows[0].Machine
	for i := range rows {
		if rows[i].Machine != first && second == "" {
			second, at = rows[i].Machine, rows[i].Rev
		}
		if second != "" && rows[i].Machine != second {
			t.Errorf("revision %d was folded by %s again", i, rows[i].Machine)
		}
	}
	return first, second, at
}

// A room whose newest row has a snapshot goes on with a later machine; rows say
// who folded them; wherever the later machine's process dies, one trail.
func TestR4_UpgradedRoomGoesOn(t *testing.T) {
	t.Parallel()
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := upgraded(t, st, j)
	at, err := st.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	var points []runtime.Point
	cfg.Crash = &runtime.Crash{Hook: func(p runtime.Point) error { points = append(points, p); return nil }}
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil || res.Termination != runtime.Completed || res.SnapshotUnused != "" || res.Head.Machine != "bot@2" {
		t.Fatalf("%+v, %v", res, err)
	}
	want := trailOf(t, cfg, j)
	if a, b, n := machines(t, want.Rows); a != "bot@1" || b != "bot@2" || n != at.Snapshot.Rev+1 {
		t.Errorf("rows by %s, from %d on by %s; the snapshot is of %d", a, n, b, at.Snapshot.Rev)
	}
	last := newer{bot: newBot()}
	if err := json.Unmarshal(want.Snapshot.State, &last); err != nil || last.Since != int(want.Head.Rev-at.Snapshot.Rev) {
		t.Errorf("%v: bot@2 folded %d events", err, last.Since)
	}
	for i := 0; i < len(points); i += int(oftener(3, 1)) {
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		cfg := upgraded(t, st, j)
		cfg.Crash = dieAfter(i + 1)
		if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
			t.Fatalf("passage %d: %v", i+1, err)
		}
		cfg.Crash = nil
		if _, err := runtime.Run(t.Context(), cfg); err != nil {
			t.Fatalf("passage %d: %v", i+1, err)
		}
		if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
			t.Errorf("died at passage %d (%s):\n%s", i+1, points[i], diff)
		}
	}
}

// The same over SQLite.
func TestR4_UpgradedRoomGoesOnInSQLite(t *testing.T) {
	t.Parallel()
	st := openSQLite(t)
	j, k := &model.MemoryJournal{}, &model.MemoryJournal{}
	cfg := upgraded(t, st, j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	same := upgraded(t, memory.New(memory.Options{}), k)
	if _, err := runtime.Run(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	if diff := differs(trailOf(t, same, k), trailOf(t, cfg, j)); diff != "" {
		t.Error(diff)
	}
}

// VERSION_MISMATCH: a tail of another version is refused, and so is a snapshot
// without an upgrade; nothing is called or written.
func TestR70_VersionMismatchChangesNothing(t *testing.T) {
	t.Parallel()
	s := chat(8)
	for name, c := range map[string]struct {
		point   runtime.Point
		passage int
		machine func() (engine.Machine, error)
		want    string
	}{
		"tail behind a snapshot": {runtime.AfterCommit, 25, bot2, "bot@1, this is bot@2, and it is not the row of a snapshot"},
		"no snapshot":            {runtime.AfterMark, 1, bot2, "bot@1, this is bot@2, and it"},
		"no upgrade":             {runtime.AfterSnapshot, 4, func() (engine.Machine, error) { return stranger{newBot("a")}, nil }, "bot@1, this is bot@2, and there is no upgrade"},
		"no way": {runtime.AfterSnapshot, 4, func() (engine.Machine, error) {
			m, err := bot2()
			return versioned{m, "bot@3"}, err
		}, "bot@3 has no upgrade from bot@1: nothing leads from here"},
		"closing, no upgrade": {runtime.BeforeClose, 1, func() (engine.Machine, error) { return stranger{newBot("a")}, nil }, "bot@1, this is bot@2, and there is no upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := stoppedAt(t, s, st, j, c.point, c.passage)
			before := trailOf(t, cfg, j)
			old := cfg.Machine
			cfg.Machine = c.machine
			_, err := runtime.Run(t.Context(), cfg)
			if engine.CodeOf(err) != engine.CodeVersionMismatch || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if diff := differs(before, trailOf(t, cfg, j)); diff != "" {
				t.Errorf("the refusal has changed something:\n%s", diff)
			}
			cfg.Machine = old
			if _, err := runtime.Run(t.Context(), cfg); err != nil {
				t.Errorf("the machine that made the room: %v", err)
			}
		})
	}
}

// versioned is a machine under another version.
type versioned struct {
	engine.Machine
	version string
}

func (v versioned) Version() string { return v.version }

func (v versioned) Upgrade(_ string, _ []byte) ([]byte, error) {
	return nil, errors.New("nothing leads from here")
}

// A room that died between the snapshot of its close and the close is closed by
// a later machine from that snapshot: commands of the rows stand in for the
// machine that is gone, and the snapshot stays.
func TestR4_UpgradeFromTheSnapshotOfAClose(t *testing.T) {
	t.Parallel()
	s := chat(4)
	want, _ := passages(t, s)
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := stoppedAt(t, s, st, j, runtime.BeforeClose, 1)
	cfg.Machine = bot2
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil || res.Termination != runtime.Completed || res.Claim == nil || res.ModelCalls != 9 || res.ToolCalls != 4 {
		t.Fatalf("%+v, %v", res, err)
	}
	if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
		t.Error(diff)
	}
}

// Replay across an upgrade folds each row with its own machine where that is at
// hand; where not, it verifies chain, digests, receipts and account and says
// which rows it could not fold.
func TestR14_ReplayAcrossAnUpgrade(t *testing.T) {
	t.Parallel()
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := upgraded(t, st, j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	rows, err := st.Rows(t.Context(), cfg.Room, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _, from := machines(t, rows)
	newest := int64(len(rows) - 1)
	old := map[string]func() (engine.Machine, error){"bot@1": bot1}
	folds := func(machine func() (engine.Machine, error), more map[string]func() (engine.Machine, error)) runtime.Folds {
		f := cfg.Folds
		f.Machine, f.Machines = machine, more
		return f
	}
	whole, err := runtime.Replay(t.Context(), st, cfg.Room, folds(bot2, old))
	if err != nil || whole.Unfolded != nil {
		t.Fatalf("%v, unfolded %v", err, whole)
	}
	v1 := runtime.Unfolded{Machine: "bot@1", First: 0, Last: from - 1}
	v2 := runtime.Unfolded{Machine: "bot@2", First: from, Last: newest}
	lone := func() (engine.Machine, error) { return stranger{newBot("a")}, nil }
	for name, c := range map[string]struct {
		folds runtime.Folds
		want  []runtime.Unfolded
	}{
		"without bot@1":      {folds(bot2, nil), []runtime.Unfolded{v1, v2}},
		"without bot@2":      {folds(bot1, nil), []runtime.Unfolded{v2}},
		"without an upgrade": {folds(lone, old), []runtime.Unfolded{v2}},
	} {
		h, err := runtime.Replay(t.Context(), st, cfg.Room, c.folds)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, h.Unfolded); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		h.Unfolded = nil
		if diff := cmp.Diff(whole, h); diff != "" { // world, claim, counts and texts are those of the rows
			t.Errorf("%s: another history:\n%s", name, diff)
		}
	}
	none := func() (engine.Machine, error) { m, err := bot1(); return versioned{m, "bot@9"}, err }
	if _, err := runtime.Replay(t.Context(), st, cfg.Room, folds(none, nil)); engine.CodeOf(err) != engine.CodeVersionMismatch {
		t.Errorf("no machine of the room: %v", err)
	}

	for _, r := range rows {
		state, err := runtime.StateAt(t.Context(), st, cfg.Room, folds(bot2, old), r.Rev)
		if err != nil || engine.Digest(state) != r.StateDigest {
			t.Errorf("revision %d: %v", r.Rev, err)
		}
	}
	if _, err := runtime.StateAt(t.Context(), st, cfg.Room, folds(bot1, nil), from-1); err != nil {
		t.Error(err)
	}
	if _, err := runtime.StateAt(t.Context(), st, cfg.Room, folds(bot1, nil), from); engine.CodeOf(err) != engine.CodeVersionMismatch {
		t.Errorf("the state of an unfolded row: %v", err)
	}

	// What is not folded is still verified.
	for name, c := range map[string]struct {
		bent bent
		want string
	}{
		"row":     {bent{rows: func(r []store.Row) []store.Row { r[2].StateDigest = "0"; return r }}, "row digest differs"},
		"receipt": {bent{load: func(l *store.Loaded) { l.Ops[0].Receipt.ChargedMicros++ }}, "the receipts say"},
		"account": {bent{load: func(l *store.Loaded) { l.Head.Money.Charged++ }}, "the account states"},
		"request": {bent{load: func(l *store.Loaded) { l.Ops[0].RequestDigest = "0" }}, "another place or request"},
	} {
		c.bent.Rooms = st
		_, err := runtime.Replay(t.Context(), c.bent, cfg.Room, folds(bot2, nil))
		if engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}

	// So is that its commands are whole: nobody has folded them.
	for kind, want := range map[string]string{"claim": "command 1: command claim is incomplete", "shout": `kind "shout" is unknown`} {
		forge := func(rows []store.Row) []store.Row {
			rows[1].Commands = fmt.Appendf(nil, `[{"kind":%q}]`, kind)
			return rechain(rows)
		}
		forged := forge(slices.Clone(rows))
		_, err := runtime.Replay(t.Context(), bent{Rooms: st, rows: forge, load: func(l *store.Loaded) {
			l.Head.Digest = forged[newest].Digest
			if l.Snapshot == nil {
				l.Rows = forged
			}
		}}, cfg.Room, folds(bot2, nil))
		if engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("a %s: %v, want %q", kind, err, want)
		}
	}

	// An upgrade that leads elsewhere than it did is found.
	drifted := func() (engine.Machine, error) { return &drift{newer{bot: newBot("a")}}, nil }
	if _, err := runtime.Replay(t.Context(), st, cfg.Room, folds(drifted, old)); engine.CodeOf(err) != engine.CodeConflict ||
		!strings.Contains(err.Error(), fmt.Sprintf("revision %d", from)) {
		t.Errorf("another upgrade: %v", err)
	}
}

type drift struct{ newer }

func (d *drift) Upgrade(version string, snapshot []byte) ([]byte, error) {
	b, err := d.newer.Upgrade(version, snapshot)
	if err != nil {
		return nil, err
	}
	return []byte(strings.Replace(string(b), `"since":0`, `"since":7`, 1)), nil
}

// A damaged snapshot of an upgraded room: with the earlier machine at hand all
// rows fold, each by its own; without it the room is refused, not guessed.
func TestR4_DamagedSnapshotOfAnUpgradedRoom(t *testing.T) {
	t.Parallel()
	ref, k := memory.New(memory.Options{}), &model.MemoryJournal{}
	same := upgraded(t, ref, k)
	if _, err := runtime.Run(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	want := trailOf(t, same, k)
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := upgraded(t, st, j)
	cfg.SnapshotBytes = 1 << 30
	cfg.Crash = dieAfter(9)
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	cfg.Crash = nil
	cfg.Store = bent{Rooms: st, load: func(l *store.Loaded) { l.Snapshot.State = nil }}
	_, err := runtime.Run(t.Context(), cfg)
	if engine.CodeOf(err) != engine.CodeVersionMismatch || !strings.Contains(err.Error(), "all rows were folded") {
		t.Errorf("without bot@1: %v", err)
	}
	cfg.Machines = map[string]func() (engine.Machine, error){"bot@1": bot1}
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil || !strings.Contains(res.SnapshotUnused, "not the state") {
		t.Fatalf("with bot@1: %v, unused: %q", err, res.SnapshotUnused)
	}
	cfg.Store = st
	if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
		t.Error(diff)
	}
}
