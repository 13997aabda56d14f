package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	protocolPage = "protocol.md"
	elided       = "…" // on a line of its own: any lines; within one: a digest or a time
)

// pageStep is a block of shell commands on a page, and what the page shows of
// their output.
type pageStep struct {
	line           int // of the block's first command
	commands, want string
	shown          bool
}

// pageSteps reads the fenced blocks of a page: sh blocks are commands, a text
// block that follows one, with nothing between, is the output of it.
func pageSteps(text string) ([]pageStep, error) {
	var steps []pageStep
	var block []string
	fence, begin := "", 0
	after := false // nothing but blank lines since a block of commands
	for i, line := range strings.Split(text, "\n") {
		info, isFence := strings.CutPrefix(line, "```")
		switch {
		case fence == "" && isFence && info == "":
			return nil, fmt.Errorf("line %d: a block of no kind: say sh, text or another", i+1)
		case fence == "" && isFence:
			if info == "text" && !after {
				return nil, fmt.Errorf("line %d: output of no commands", i+1)
			}
			fence, begin, block = info, i+2, nil
		case fence == "":
			after = after && strings.TrimSpace(line) == ""
		case !isFence:
			block = append(block, line)
		default:
			body := strings.Join(block, "\n")
			after = fence == "sh"
			switch fence {
			case "sh":
				steps = append(steps, pageStep{line: begin, commands: body})
			case "text":
				last := &steps[len(steps)-1]
				last.want, last.shown = body, true
			}
			fence = ""
		}
	}
	if fence != "" {
		return nil, fmt.Errorf("line %d: the block has no end", begin)
	}
	return steps, nil
}

// variable matches what differs from one run, build or machine to the next, and
// keeps the words around it.
var variable = regexp.MustCompile(strings.Join([]string{
	`(sha256:|[cf]_)[0-9a-f]+`,
	`(SHA256:)[A-Za-z0-9+/]{43}`,
	`(h1:)[A-Za-z0-9+/]{43}=`,
	`\b()[0-9a-f]{64}\b`,
	`()\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`,
	`()[a-z0-9]+/[a-z0-9]+, go1\.[0-9a-z.-]+, \d+ bytes`,
	`()\b\d+ modules`,
}, "|"))

// asOnThePage replaces what is variable in an output by the word that the page
// has for it.
func asOnThePage(out string) string {
	return variable.ReplaceAllStringFunc(out, func(found string) string {
		for _, kept := range variable.FindStringSubmatch(found)[1:] {
			if kept != "" {
				return kept + elided
			}
		}
		return elided
	})
}

// missingLine tells the first line of want that got does not have at its place,
// where an elided line of want stands for any lines.
func missingLine(want, got string) error {
	have := strings.Split(strings.TrimRight(asOnThePage(got), "\n"), "\n")
	for i := range have {
		have[i] = strings.TrimRight(have[i], " ") // columns
	}
	gap := false
	for _, line := range strings.Split(strings.TrimRight(want, "\n"), "\n") {
		if line == elided {
			gap = true
			continue
		}
		for gap && len(have) > 0 && have[0] != line {
			have = have[1:]
		}
		if len(have) == 0 {
			return fmt.Errorf("the page shows the line %q, which is not there", line)
		}
		if have[0] != line {
			return fmt.Errorf("the page shows the line %q; there is %q", line, have[0])
		}
		have, gap = have[1:], false
	}
	if len(have) > 0 && !gap {
		return fmt.Errorf("the page does not show the line %q", have[0])
	}
	return nil
}

func TestMissingLine(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0a", 32)
	for _, tc := range []struct {
		want, got string
		same      bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a", "a\nb\n", false},
		{"b", "a\nb\n", false},
		{"a\n…", "a\nb\n", true},
		{"…\nb", "a\nb\n", true},
		{"…\nb\n…", "b\n", true},
		{"a\n…\nd", "a\nb\nc\nd\n", true},
		{"a\n…\nd", "a\nb\nc\n", false},
		{"a\n…\nb\nd", "a\nb\nc\nd\n", false},
		{"freeze f_…; head …", "freeze f_" + digest + "; head " + digest + "\n", true},
		{"freeze f_…; head …", "freeze f_" + digest + "; head none\n", false},
		{"by sha256:… at …", "by sha256:" + digest + " at 2026-11-30T16:43:22Z\n", true},
		{"2 modules", "31 modules\n", false},
		{"-", "", false},
	} {
		if err := missingLine(tc.want, tc.got); (err == nil) != tc.same {
			t.Errorf("missingLine(%q, %q) = %v", tc.want, tc.got, err)
		}
	}
}

func TestPageStepsRefusesWhatWouldNotBeRun(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"```\nls\n```":                           "line 1: a block of no kind",
		"```sh\nls\n":                            "line 2: the block has no end",
		"```text\nx\n```":                        "line 1: output of no commands",
		"```sh\nls\n```\nwords\n```text\nx\n```": "line 5: output of no commands",
	} {
		if _, err := pageSteps(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestQ4_Q8_TheProtocolPageIsTrue runs every command of protocol.md in an empty
// folder, in the order of the page, with the command built from this source, and
// compares what they print with what the page shows. All of them together take
// less than a minute.
func TestQ4_Q8_TheProtocolPageIsTrue(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh: the page is for a POSIX shell")
	}
	bin := buildQualify(t)
	steps, err := pageSteps(readPage(t, protocolPage))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, all := t.TempDir(), ""
	for _, s := range steps {
		out, err := inShell(ctx, dir, s.commands, bin)
		if err != nil {
			t.Fatalf("%s:%d: %v\n%s\n%s", protocolPage, s.line, errors.Join(err, ctx.Err()), s.commands, out)
		}
		if !s.shown {
			continue
		}
		if err := missingLine(s.want, out); err != nil {
			t.Errorf("%s:%d: %v; it prints\n%s", protocolPage, s.line, err, asOnThePage(out))
		}
	}
	for _, s := range steps {
		all += s.commands + "\n"
	}
	for _, want := range []string{
		"init", "corpus lint", "gate campaign.yaml --plan", "run campaign.yaml", "compare", "report", "freeze create", "run campaign.yaml --split holdout --freeze",
		"gate first", "attest keygen", "attest sign", "freeze log --verify", "report bundle", "report verify", "attest verify",
	} {
		if !strings.Contains(all, "qualify "+want) {
			t.Errorf("the page does not run qualify %s", want)
		}
	}
}

// buildQualify builds the command from this source and returns its folder.
func buildQualify(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "qualify"), repoRoot+"/cmd/qualify")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// inShell runs commands in dir, as somebody does who follows a page there, with
// more folders before those of PATH. It returns what they print.
func inShell(ctx context.Context, dir, commands string, more ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", commands)
	cmd.Dir = dir
	path := strings.Join(append(more, os.Getenv("PATH")), string(os.PathListSeparator))
	cmd.Env = append(environWithout("QUALIFY_"), "PATH="+path, "HOME="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// environWithout is the environment without the variables of a prefix.
func environWithout(prefix string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, prefix) {
			env = append(env, e)
		}
	}
	return env
}
