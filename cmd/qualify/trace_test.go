package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// sampleTrace is a small trace with every kind of record.
func sampleTrace(t *testing.T, trial int, room string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := trace.NewWriter(&buf)
	for _, err := range []error{
		w.Header(trace.Header{
			Campaign: "sha256:p", Arm: "planner", Mode: "planner", Case: "ledger-01", Family: "ledger", Split: "dev", Trial: trial,
			Evidence: "simulated", Clock: "virtual", WorldSeed: "91b2", Model: "sim-1", Prices: "sha256:x", Machine: "planner@1",
			Limits: trace.Limits{BudgetMicros: 80_000, ModelCalls: 40, ToolCalls: 40, Minutes: 60},
		}),
		w.Owner(trace.Owner{AtUS: 0, ID: "m1", Type: "request", From: "ana", Text: "Please make the books agree.\nThen \x1b[31mwrite\x1b[0m me a note."}),
		w.Op(trace.Op{
			AtUS: 1_800_000, Op: "op_1", Kind: "specialist", Role: "specialist", Agent: "keeper", Task: "t1", Cause: "m1",
			Outcome: "ok", StartUS: 0, Reserved: 900, Charged: 640, Source: "actual", Request: "r1", Usage: &engine.Usage{Input: 10, Output: 3},
		}),
		w.Effect(trace.Effect{
			AtUS: 2_000_000, Op: "op_2", Identity: "sha256:e", Tool: "fix_entry", Target: "i-17", Args: json.RawMessage(`{"id":"i-17"}`),
			Agent: "keeper", State: "confirmed", Key: "k_1", Ack: "lost", FaultKind: "ack_lost_after_commit",
		}),
		w.Event(trace.Event{AtUS: 2_000_000, Kind: "tool_unknown", Op: "op_2", Body: json.RawMessage(`{"tool":"fix_entry"}`)}),
		second(w.End(trace.End{
			AtUS: 9_640_000, Termination: "completed", Claim: &trace.Claim{AtUS: 9_000_000, By: "planner", TextSHA256: "t"},
			Documents: map[string]json.RawMessage{"shop": json.RawMessage(`{}`)},
			Messages:  []trace.Message{{AtUS: 9_000_000, ID: "s1", From: "writer", To: "ana", Via: "put_note", Text: "Done."}},
			Artifacts: []trace.Artifact{{Name: "report", Version: 2, By: "writer", Text: "All agree."}},
			Money:     trace.Money{Charged: 640}, RoomDigest: room,
		})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func second(_ string, err error) error { return err }

// storeWithTrial is a store that holds a campaign with one closed trial, its
// room of three rows, and its trace.
func storeWithTrial(t *testing.T) store.Store {
	t.Helper()
	ctx := t.Context()
	s := memory.New(memory.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.PutCampaign(ctx, store.Campaign{ID: "c_1", Name: "demo", PlanDigest: "sha256:p", Plan: []byte("{}"), Status: "running"}))
	must(s.CreateRoom(ctx, store.NewRoom{Room: "room", Salt: []byte("s"), Funds: store.FundsSimulated, Machine: "planner@1"}))
	prev := ""
	for rev := range int64(3) {
		row := store.Row{Rev: rev, Machine: "planner@1", Event: []byte(`{}`), Commands: []byte(`[]`), StateDigest: "state", Prev: prev}
		row.CommandsDigest = engine.Digest(row.Commands)
		row.Digest = store.RowDigest(row)
		_, err := s.Commit(ctx, store.Commit{Room: "room", ExpectRev: rev - 1, ExpectHead: prev, Row: row})
		must(err)
		prev = row.Digest
	}
	content := sampleTrace(t, 0, prev)
	info, err := trace.Verify(bytes.NewReader(content))
	must(err)
	must(s.PutTrace(ctx, "c_1", "ledger-01/planner/0", info.Digest, content))
	must(s.PutTrial(ctx, store.Trial{
		Campaign: "c_1", Key: "ledger-01/planner/0", Arm: "planner", Case: "ledger-01", Room: "room",
		Status: store.TrialClosed, Termination: "completed", TraceDigest: info.Digest,
	}))
	must(s.CloseRoom(ctx, "room", "completed", 9_640_000))
	return s
}

func TestTraceOfTheStore(t *testing.T) {
	t.Parallel()
	s := storeWithTrial(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"trace", "list"}, "ledger-01/planner/0  closed  completed"},
		{[]string{"trace", "list", "--campaign", "demo"}, "ledger-01/planner/0"},
		{[]string{"trace", "show", "ledger-01/planner/0"}, "confirmed fix_entry i-17"},
		{[]string{"trace", "verify"}, "6 records, 3 revisions"},
		{[]string{"trace", "export", "ledger-01/planner/0"}, `"rec":"header"`},
	} {
		code, out, talk := runWith(t, s, tc.args...)
		if code != exitOK || !strings.Contains(out, tc.want) {
			t.Errorf("%v: exit %d, stderr %q, stdout lacks %q:\n%s", tc.args, code, talk, tc.want, out)
		}
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"trace", "show", "ledger-01/planner/7"}, `no trace of trial "ledger-01/planner/7"`},
		{[]string{"trace", "list", "--campaign", "dmo"}, "did you mean demo?"},
		{[]string{"trace", "export"}, "name one TRIAL, or a folder"},
		{[]string{"trace", "export", "x/y/0", "--format", "otlp"}, "this version writes jsonl"},
	} {
		code, _, talk := runWith(t, s, tc.args...)
		if code != exitUsage || !strings.Contains(talk, tc.want) {
			t.Errorf("%v: exit %d, stderr %q, want %q", tc.args, code, talk, tc.want)
		}
	}
}

func TestTraceExportWritesWholeFiles(t *testing.T) {
	t.Parallel()
	s, dir := storeWithTrial(t), t.TempDir()
	if code, _, talk := runWith(t, s, "trace", "export", "-o", dir); code != exitOK {
		t.Fatalf("exit %d, stderr %q", code, talk)
	}
	path := filepath.Join(dir, "ledger-01", "planner", "0.jsonl")
	code, out, talk := runWith(t, s, "trace", "verify", path)
	if code != exitOK || !strings.Contains(out, "1 traces, 0 wrong") {
		t.Errorf("exit %d, stderr %q:\n%s", code, talk, out)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("want the one file, got %v, %v", files, err)
	}
}

// storedAgain is a rebuilder that fails with err, or gives the stored trace
// with tail behind it. The rows of these tests have no machine to rebuild
// them; TestRunIsVerifiable does it with real ones.
func storedAgain(err error, tail string) rebuilder {
	return func(s store.Store, _ store.Campaign, _ string) (*rebuilding, error) {
		return &rebuilding{
			planned: []string{"ledger-01/planner/0"},
			record:  func(store.Trial, trace.Info) error { return nil },
			trace: func(ctx context.Context, t store.Trial) ([]byte, error) {
				if err != nil {
					return nil, err
				}
				_, content, err := s.Trace(ctx, t.Campaign, t.Key)
				return append(content, tail...), err
			},
		}, nil
	}
}

// TestVerifyComparesTraceRowsAndRecord: a trace that is sound in itself but
// not the one its trial record, plan or room names is found.
func TestVerifyComparesTraceRowsAndRecord(t *testing.T) {
	t.Parallel()
	trial := store.Trial{
		Campaign: "c_1", Key: "ledger-01/planner/0", Room: "room", Status: store.TrialClosed, Termination: "completed",
	}
	sound := storeWithTrial(t)
	digest, _, err := sound.Trace(t.Context(), "c_1", trial.Key)
	if err != nil {
		t.Fatal(err)
	}
	trial.TraceDigest = digest
	camp := store.Campaign{ID: "c_1", PlanDigest: "sha256:p"}
	for _, tc := range []struct {
		name    string
		change  func(*store.Campaign, *store.Trial)
		rebuild error
		tail    string
		want    string
	}{
		{"sound", func(*store.Campaign, *store.Trial) {}, nil, "", ""},
		{"another plan", func(c *store.Campaign, _ *store.Trial) { c.PlanDigest = "sha256:q" }, nil, "", "another plan"},
		{"another digest", func(_ *store.Campaign, t *store.Trial) { t.TraceDigest = "d" }, nil, "", "not the one in the trial record"},
		{"another ending", func(_ *store.Campaign, t *store.Trial) { t.Termination = "gave_up" }, nil, "", "ends with completed"},
		{"another room", func(_ *store.Campaign, t *store.Trial) { t.Room = "gone" }, nil, "", "not found"},
		{"rebuilt otherwise", func(*store.Campaign, *store.Trial) {}, errors.New("revision 2: state differs"), "", "revision 2: state differs"},
		{"exported otherwise", func(*store.Campaign, *store.Trial) {}, nil, " ", "not the one that the room's rows stand for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, tr := camp, trial
			tc.change(&c, &tr)
			a := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
			a.rebuild = storedAgain(tc.rebuild, tc.tail)
			got, err := a.verifyStored(t.Context(), sound, c, []store.Trial{tr}, builtinName)
			if err != nil || len(got) != 1 {
				t.Fatalf("got %v, %v", got, err)
			}
			if got[0].OK != (tc.want == "") || !strings.Contains(got[0].Fault, tc.want) {
				t.Errorf("got %+v, want fault %q", got[0], tc.want)
			}
		})
	}
}

// alteredRows is a store whose rows were changed behind its back.
type alteredRows struct {
	store.Store
	change func([]store.Row) []store.Row
}

func (s alteredRows) Rows(ctx context.Context, room string, after int64, limit int) ([]store.Row, error) {
	rows, err := s.Store.Rows(ctx, room, after, limit)
	return s.change(rows), err
}

func TestVerifyFindsAlteredRows(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func([]store.Row) []store.Row{
		"event":    func(r []store.Row) []store.Row { r[1].Event = []byte(`{"a":1}`); return r },
		"commands": func(r []store.Row) []store.Row { r[1].Commands = []byte(`[1]`); return r },
		"state":    func(r []store.Row) []store.Row { r[1].StateDigest = "other"; return r },
		"lost":     func(r []store.Row) []store.Row { return append(r[:1], r[2:]...) },
		"cut":      func(r []store.Row) []store.Row { return r[:2] },
		"rechained": func(r []store.Row) []store.Row {
			r[2].Event = []byte(`{"a":1}`)
			r[2].Digest = store.RowDigest(r[2])
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, _ := runWith(t, alteredRows{storeWithTrial(t), change}, "trace", "verify")
			if code != exitFail || !strings.Contains(out, "FAIL  ledger-01/planner/0: room room") {
				t.Errorf("exit %d:\n%s", code, out)
			}
		})
	}
}

// TestFlippedBitFailsVerify flips one bit of each byte of a trace file in turn,
// through the command; package trace does so for every bit.
func TestFlippedBitFailsVerify(t *testing.T) {
	t.Parallel()
	content := sampleTrace(t, 0, "r")
	path := filepath.Join(t.TempDir(), "t.jsonl")
	verify := func(b []byte) int {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		results, err := verifyFiles([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		a := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
		if err := a.printVerified(results, false); err != nil {
			return exitCode(err)
		}
		return exitOK
	}
	if code := verify(content); code != exitOK {
		t.Fatalf("the sound trace gives %d", code)
	}
	for i := range content {
		content[i] ^= 1 << (i % 8)
		if code := verify(content); code != exitFail {
			t.Fatalf("byte %d, bit %d flipped: exit %d", i, i%8, code)
		}
		content[i] ^= 1 << (i % 8)
	}
}

func TestShowDoesNotDriveTheTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, sampleTrace(t, 0, "r"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, talk := runWith(t, nil, "trace", "show", "--full", path)
	if code != exitOK {
		t.Fatalf("exit %d, stderr %q", code, talk)
	}
	for _, want := range []string{
		"trial      ledger-01/planner/0", "USD 0.08", `request m1 from ana: Please make the books agree.\nThen \x1b[31mwrite`,
		"specialist ok, by keeper, task t1, charged 0.00064 of 0.0009 (actual), took 1.800000 s, op_1",
		`confirmed fix_entry i-17 {"id":"i-17"}, acknowledgement lost, fault ack_lost_after_commit`,
		"end        completed after 9.640000 s", "claim      by planner at 9.000000 s", "report version 2 by writer: All agree.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("an escape sequence of the trace reaches the terminal")
	}
}
