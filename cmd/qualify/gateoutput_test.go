package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files beside a verdict that could not be written are refused before anything
// is judged: with one line, nothing on stdout and no file touched.
func TestQ5_FilesOfAVerdictAreCheckedFirst(t *testing.T) {
	t.Parallel()
	s, dir := storedCampaignOf(t).store, t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	policy := path("policy.yaml")
	code, text, talk := command(t, "gate", "--print-default")
	if code != exitOK {
		t.Fatal(talk)
	}
	must(t, os.WriteFile(policy, []byte(text), 0o600))
	must(t, os.Mkdir(path("folder"), 0o700))
	const readOnly = "/sys/kernel/notes"
	before := map[string]string{"policy.yaml": text}
	for _, tc := range []struct {
		flags []string
		exit  int
		want  string
	}{
		{[]string{"--summary", path("gone/s.md")}, exitUsage, "folder " + path("gone")},
		{[]string{"--summary", path("folder")}, exitUsage, "is no regular file"},
		{[]string{"--summary", path("policy.yaml/s.md")}, exitUsage, "is no folder"},
		{[]string{"--summary", policy}, exitRefused, "reads that file, and would replace it"},
		{[]string{"--junit", path("gone/s.xml")}, exitUsage, "folder " + path("gone")},
		{[]string{"--junit", policy}, exitRefused, "reads that file, and would replace it"},
		{[]string{"--junit", path("x"), "--summary", path("./x")}, exitUsage, "name the same file"},
		{[]string{"--junit", "/proc/qualify.xml"}, exitUsage, "no file can be made in folder /proc"},
		{[]string{"--summary", "/proc/qualify.md"}, exitUsage, "no file can be made in folder /proc"},
		{[]string{"--summary", readOnly}, exitUsage, "--summary " + readOnly + ": "},
	} {
		if strings.HasPrefix(tc.flags[1], "/") && !strings.HasPrefix(tc.flags[1], dir) && !fileExists(readOnly) {
			continue // files that even root cannot write are there on Linux
		}
		code, out, talk := runWith(t, s, append([]string{"gate", "test", "--policy", policy}, tc.flags...)...)
		if code != tc.exit || out != "" || strings.Count(talk, "\n") != 1 || !strings.Contains(talk, tc.want) {
			t.Errorf("%v: exit %d, stdout %.60q, stderr %q, want %q", tc.flags, code, out, talk, tc.want)
		}
	}
	must(t, os.Remove(path("folder")))
	for name, now := range folder(t, dir) {
		if before[name] != now {
			t.Errorf("%s was made or changed", name)
		}
	}
}
