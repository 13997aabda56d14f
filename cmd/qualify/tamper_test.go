package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyFindsEveryEditOfTheStore: whatever is changed by hand in the rows
// that a campaign's traces and results stand on, trace verify says so with exit
// 1 and names the trial or the plan. Contents may be absent, never others.
func TestVerifyFindsEveryEditOfTheStore(t *testing.T) {
	t.Parallel()
	sound := filepath.Join(t.TempDir(), "sound.db")
	code, _, stderr := command(t, "run", "builtin:demo", "--case", "ledger-two-books-01", "--trials", "1", "--store", "sqlite:"+sound)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	edit(t, sound, "PRAGMA wal_checkpoint(TRUNCATE)")
	file, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	const key = "ledger-two-books-01/planner/0"
	room := "(SELECT n FROM room WHERE id LIKE '%/" + key + "')"
	first := func(table string) string {
		return " WHERE rowid = (SELECT min(rowid) FROM " + table + " WHERE room = " + room + ")"
	}
	trial := " WHERE key = '" + key + "'"
	for _, tc := range []struct{ name, sql string }{
		{"event of a row", "UPDATE revision SET event = CAST(replace(CAST(event AS TEXT), '\"at_us\":0', '\"at_us\":1') AS BLOB)" + first("revision")},
		{"commands of a row", "UPDATE revision SET commands = CAST('[]' AS BLOB) WHERE CAST(commands AS TEXT) <> '[]' AND room = " + room},
		{"state digest of a row", "UPDATE revision SET state_digest = 'x'" + first("revision")},
		{"a row is gone", "DELETE FROM revision" + first("revision")},
		{"head", "UPDATE room SET state_digest = 'x' WHERE n = " + room},
		{"room opened again", "UPDATE room SET closed = 0 WHERE n = " + room},
		{"money of a room", "UPDATE room SET charged = charged + 1 WHERE n = " + room},
		{"allotment of a room", "UPDATE room SET allotment = '' WHERE n = " + room},
		{"charge of an operation", "UPDATE operation SET charged = charged + 1" + first("operation")},
		{"charge of a receipt", "UPDATE operation SET receipt_charged = receipt_charged + 1" + first("operation")},
		{"outcome of a receipt", "UPDATE operation SET outcome = 'failed'" + first("operation")},
		{"time of a receipt", "UPDATE operation SET finish_us = finish_us + 1" + first("operation")},
		{"status of an operation", "UPDATE operation SET status = 'settled_failed'" + first("operation")},
		{"an effect", "UPDATE effect SET body = replace(body, '\"state\":\"confirmed\"', '\"state\":\"refuted\"') WHERE room = " + room},
		{"an effect is gone", "DELETE FROM effect WHERE room = " + room},
		{"contents", "UPDATE blob SET content = CAST(CAST(content AS TEXT) || 'x' AS BLOB) WHERE room = " + room},
		{"snapshot", "UPDATE snapshot SET state = CAST('{}' AS BLOB) WHERE room = " + room},
		{"trace", "UPDATE trace SET content = CAST(replace(CAST(content AS TEXT), '\"rec\":\"end\"', '\"rec\":\"enD\"') AS BLOB)" + trial},
		{"a trace is gone", "DELETE FROM trace" + trial},
		{"money of a trial record", "UPDATE trial SET charged = charged + 1" + trial},
		{"arm of a trial record", "UPDATE trial SET arm = 'legacy'" + trial},
		{"place of a trial record", "UPDATE trial SET place = place + 1" + trial},
		{"a trial that is said to run", "UPDATE trial SET status = 'running'" + trial},
		{"a trial record is gone", "DELETE FROM trial" + trial},
		{"plan", "UPDATE campaign SET plan = CAST(replace(CAST(plan AS TEXT), '\"trials\":1', '\"trials\":2') AS BLOB)"},
		{"name of the campaign", "UPDATE campaign SET name = 'other'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "q.db")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if n := edit(t, path, tc.sql); n == 0 {
				t.Fatalf("nothing was changed by %s", tc.sql)
			}
			code, stdout, stderr := command(t, "trace", "verify", "--store", "sqlite:"+path)
			named := strings.Contains(stdout, "FAIL  "+key) || strings.Contains(stdout, "FAIL  c_")
			if code != exitFail || !named || strings.Count(stdout, "FAIL") != 1 || stderr != "" {
				t.Errorf("exit %d, stderr %q:\n%s", code, stderr, stdout)
			}
		})
	}
}

// TestBudgetVerifyMissesNoCeiling: a ledger that moves the money of a ceiling
// that is not there proves nothing.
func TestBudgetVerifyMissesNoCeiling(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "q.db")
	if code, _, stderr := command(t, "run", "builtin:demo", "--case", "answer-opening-hours-01", "--trials", "1", "--store", store); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	edit(t, strings.TrimPrefix(store, "sqlite:"), "DELETE FROM ceiling")
	code, stdout, _ := command(t, "budget", "verify", "--store", store)
	if code != exitFail || !strings.Contains(stdout, "row 1 of the ledger moves money of this ceiling") {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
}

// command runs one command line as main does.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk strings.Builder
	code = run(t.Context(), args, strings.NewReader(""), &out, &talk)
	return code, out.String(), talk.String()
}

// edit changes a store by hand, past every check, and tells how many rows it
// changed.
func edit(t *testing.T, path, statement string) int64 {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	res, err := db.ExecContext(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
