package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeProc is a /proc with the given processes, each a state and a start time.
func fakeProc(t *testing.T, boot, ns string, processes map[int][2]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/random/boot_id", boot+"\n")
	if err := os.MkdirAll(filepath.Join(dir, "self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pid:["+ns+"]", filepath.Join(dir, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	for pid, p := range processes {
		write(strconv.Itoa(pid)+"/stat", fmt.Sprintf("%d (a (odd) name) %s 1 1 1 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 5 0 %s 100 1", pid, p[0], p[1]))
	}
	return dir
}

// Only what is proved to be gone is gone: another host, another boot, another
// pid namespace, or a process that merely looks strange prove nothing.
func TestOwnerIsGoneOnlyWhenItIsProved(t *testing.T) {
	t.Parallel()
	self := os.Getpid()
	proc := fakeProc(t, "boot-1", "4026531836", map[int][2]string{self: {"R", "500"}, 4711: {"S", "123"}, 4712: {"T", "124"}, 4713: {"Z", "125"}})
	if err := os.MkdirAll(filepath.Join(proc, "4714"), 0o755); err != nil { // no stat to read
		t.Fatal(err)
	}
	p := thisProcess(proc)
	if p.boot != "boot-1/4026531836" || p.start != "500" {
		t.Fatalf("this process %+v", p)
	}
	owner := func(pid int, start string) process {
		return process{pid: pid, start: start, host: p.host, since: p.since, boot: p.boot}
	}
	elsewhere, rebooted, contained, nowhere := owner(99, "1"), owner(99, "1"), owner(99, "1"), owner(99, "1")
	elsewhere.host, rebooted.boot, contained.boot, nowhere.boot = "other host", "boot-2/4026531836", "boot-1/4026531999", ""
	for _, tc := range []struct {
		what string
		name string
		want bool
	}{
		{"running", owner(4711, "123").name(), false},
		{"stopped", owner(4712, "124").name(), false},
		{"dead, not yet waited for", owner(4713, "125").name(), true},
		{"its pid is free", owner(99, "1").name(), true},
		{"its pid is another's", owner(4711, "122").name(), true},
		{"this process", p.name(), false},
		{"unreadable", owner(4714, "1").name(), false},
		{"another host", elsewhere.name(), false},
		{"another boot", rebooted.name(), false},
		{"another pid namespace", contained.name(), false},
		{"no identity", nowhere.name(), false},
		{"another program's words", "somebody", false},
		{"nothing", "", false},
	} {
		if got := p.gone(proc, tc.name); got != tc.want {
			t.Errorf("%s (%s): gone is %t", tc.what, tc.name, got)
		}
	}
	blind := fakeProc(t, "boot-1", "4026531836", nil) // a /proc that does not even show this process
	if p.gone(blind, owner(99, "1").name()) {
		t.Error("gone by a view that shows nothing")
	}
	if shown := shownOwner(p.name()); strings.Contains(shown, "[") || !strings.HasPrefix(shown, "pid "+strconv.Itoa(self)+" on ") {
		t.Errorf("shown as %q", shown)
	}
}

// The real /proc: a process that was killed is gone, also before it was waited
// for; one that runs is not.
func TestOwnerIsLookedUpInProc(t *testing.T) {
	t.Parallel()
	if bootOf(procfs) == "" {
		if _, err := os.Stat(procfs); err == nil {
			t.Fatal("there is a /proc, and it does not tell where a pid means something")
		}
		return // a system without /proc: nothing is ever proved
	}
	self := thisProcess(procfs)
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, _, ok := startOf(procfs, cmd.Process.Pid)
	if !ok {
		t.Fatal("the child is not in /proc")
	}
	child := self
	child.pid, child.start = cmd.Process.Pid, start
	if self.gone(procfs, child.name()) || self.gone(procfs, self.name()) {
		t.Error("a running process is gone")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the death of the child", func() bool { return self.gone(procfs, child.name()) })
	_ = cmd.Wait() // it was killed
	if !self.gone(procfs, child.name()) {
		t.Error("a process that was waited for is not gone")
	}
}
