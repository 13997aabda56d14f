package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// doctorSays runs doctor on a store in this process and returns its exit code
// and its problems, by check.
func doctorSays(t *testing.T, path string) (code int, problems map[string]string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), []string{"doctor", "--json", "--store", "sqlite:" + path}, strings.NewReader(""), &stdout, &stderr)
	return code, problemsIn(t, stdout.Bytes())
}

func problemsIn(t *testing.T, doc []byte) map[string]string {
	t.Helper()
	var d struct {
		OK       bool
		Findings []finding
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatalf("%v:\n%s", err, doc)
	}
	out := map[string]string{}
	for _, f := range d.Findings {
		if !f.OK {
			out[f.Check] = f.Text
			if f.Do == "" {
				t.Errorf("%s: %s: nothing to do about it", f.Check, f.Text)
			}
		}
	}
	if d.OK != (len(out) == 0) {
		t.Errorf("ok is %t with problems %v", d.OK, out)
	}
	return out
}

// wantProblem requires exactly one problem, of this check, that says the words.
func wantProblem(t *testing.T, code int, problems map[string]string, check, words string) {
	t.Helper()
	if code != exitFail || len(problems) != 1 || !strings.Contains(problems[check], words) {
		t.Errorf("exit %d, problems %v; want exit %d and %s: …%s…", code, problems, exitFail, check, words)
	}
}

func TestDoctorFindsNothingInASoundStore(t *testing.T) {
	t.Parallel()
	if code, problems := doctorSays(t, sqliteStore(t)); code != exitOK || len(problems) != 0 {
		t.Errorf("exit %d, problems %v", code, problems)
	}
}

func TestDoctorFindsANewerSchema(t *testing.T) {
	t.Parallel()
	path := sqliteStore(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "PRAGMA user_version = 999")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	code, problems := doctorSays(t, path)
	wantProblem(t, code, problems, "store", "made by a newer version")
}

func TestDoctorFindsADamagedFile(t *testing.T) {
	t.Parallel()
	path := sqliteStore(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) - 4096; i < len(b); i++ { // its last page, which opening does not read
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, problems := doctorSays(t, path)
	wantProblem(t, code, problems, "damage", "store is damaged")
}

func TestDoctorFindsALiveLease(t *testing.T) {
	t.Parallel()
	path := sqliteStore(t)
	lease := func(campaign, owner string, ttl time.Duration) {
		t.Helper()
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.AcquireLease(t.Context(), campaigns.LeaseName(campaign), "token "+campaign, owner, ttl)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	// Left by a process that is gone, and run out: neither is a problem.
	child := exec.CommandContext(t.Context(), "true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	gone := thisProcess(procfs)
	gone.pid, gone.start = child.Process.Pid, "1"
	lease("c_gone", gone.name(), time.Hour)
	lease("c_out", "pid 1 on elsewhere since then", time.Microsecond)
	if code, problems := doctorSays(t, path); code != exitOK || len(problems) != 0 {
		t.Errorf("without a live one: exit %d, problems %v", code, problems)
	}
	lease("c_live", "pid 7 on elsewhere since noon [other/1 2]", time.Hour)
	code, problems := doctorSays(t, path)
	wantProblem(t, code, problems, "lease", "campaign/c_live is run by pid 7 on elsewhere since noon, until ")
}

func TestDoctorFindsLittleSpace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		free  func(string) (uint64, bool, error)
		words string // "" for none
	}{
		"little":  {func(string) (uint64, bool, error) { return lowSpace - 1, true, nil }, "is full: 63 MiB free"},
		"enough":  {func(string) (uint64, bool, error) { return lowSpace, true, nil }, ""},
		"unknown": {func(string) (uint64, bool, error) { return 0, false, nil }, ""},
		"fails":   {func(string) (uint64, bool, error) { return 0, false, errors.New("no such disk") }, "no such disk"},
	} {
		d := &doctor{free: tc.free}
		d.checkFolder(filepath.Join(t.TempDir(), "not", "there", "q.db"))
		i := slices.IndexFunc(d.findings, func(f finding) bool { return f.Check == "space" })
		if i < 0 || d.findings[i].OK != (tc.words == "") || !strings.Contains(d.findings[i].Text, tc.words) {
			t.Errorf("%s: %+v", name, d.findings)
		}
	}
}

// doctorProcess runs doctor --json in a process of its own.
func doctorProcess(t *testing.T, cmd *exec.Cmd) (code int, problems map[string]string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	return code, problemsIn(t, out)
}

// A store that the user may not write to: doctor says so, and still reads it.
// As root, which may write anywhere, the command runs as another user.
func TestDoctorFindsAReadOnlyStore(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(qualifyBin(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o755); err != nil { // so that it can be removed
			t.Error(err)
		}
	})
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // every user may look into it
		t.Fatal(err)
	}
	bin, path := filepath.Join(dir, "qualify"), filepath.Join(dir, "q.db")
	if err := os.WriteFile(bin, src, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "doctor", "--json", "--store", "sqlite:"+path)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	code, problems := doctorProcess(t, cmd)
	wantProblem(t, code, problems, "writing", "the store is read-only")
	if b, err := os.ReadDir(dir); err != nil || len(b) != 2 {
		t.Errorf("files left: %v (%v)", b, err)
	}
}

// A disk that is really full: a small one of its own, filled to the last byte.
func TestDoctorFindsAFullDisk(t *testing.T) {
	t.Parallel()
	bin, dir := qualifyBin(t), t.TempDir()
	inMount := func(script string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
			"mount -t tmpfs -o size=4m none "+dir+"; cd "+dir+"; "+script)
		cmd.Env = append(os.Environ(), "BIN="+bin)
		return cmd
	}
	if out, err := inMount("true").CombinedOutput(); err != nil {
		t.Skipf("no disk of its own can be mounted here: %v: %s", err, out)
	}
	code, problems := doctorProcess(t, inMount(`"$BIN" init >/dev/null; dd if=/dev/zero of=fill bs=4k 2>/dev/null || true; exec "$BIN" doctor --json`))
	if code != exitFail || !strings.Contains(problems["space"], "no space left") {
		t.Errorf("exit %d, problems %v", code, problems)
	}
}
