// Command skipcheck reads the output of go test -json, prints the closing line
// of every top-level test and package and all output of those that failed,
// and fails on a failed test, a failed build, or a skip that is not listed
// with a reason.
//
// Usage: go test -json ./... | go run ./.ci/skipcheck .ci/skips.txt
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const module = "github.com/agentrooms/qualify/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ./... | skipcheck SKIPS")
		os.Exit(3)
	}
	f, err := os.Open(os.Args[1])
	if err == nil {
		var allowed map[key]string
		if allowed, err = readSkips(f); err == nil {
			err = check(os.Stdin, os.Stdout, allowed)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "skipcheck:", err)
		os.Exit(1)
	}
}

// key names a test: package from the module root, and test.
type key struct{ pkg, test string }

func (k key) String() string { return k.pkg + " " + k.test }

// readSkips reads the list of permitted skips: "package Test reason…".
func readSkips(r io.Reader) (map[key]string, error) {
	allowed := map[key]string{}
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("skip list, line %d: want package, test and a reason", n)
		}
		allowed[key{fields[0], fields[1]}] = strings.Join(fields[2:], " ")
	}
	return allowed, sc.Err()
}

// event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// check copies the closing lines of the run in r to w. It returns an error
// that lists every failure, every skip that allowed does not hold, and every
// entry of allowed that the run did not see.
func check(r io.Reader, w io.Writer, allowed map[key]string) error {
	var failures []string
	output := map[key][]string{}
	seen := map[key]bool{}
	var passed, failed, skipped, packages int
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var e event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			// make and the go command may add plain lines of their own.
			fmt.Fprintln(w, sc.Text())
			continue
		}
		k := key{strings.TrimPrefix(e.Package, module), e.Test}
		if e.Test != "" {
			seen[k] = true
		}
		top := e.Test != "" && !strings.Contains(e.Test, "/")
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "build-fail":
			failures = append(failures, "build failed: "+e.ImportPath)
		case "output":
			if e.Test == "" || top && strings.HasPrefix(e.Output, "--- ") {
				fmt.Fprint(w, e.Output)
			} else {
				output[k] = append(output[k], e.Output)
			}
		case "pass":
			delete(output, k)
			if e.Test == "" {
				packages++
			} else {
				passed++
			}
		case "skip":
			if e.Test == "" {
				continue // a package without tests
			}
			skipped++
			reason, ok := allowed[k]
			if !ok {
				failures = append(failures, "skipped without a listed reason: "+k.String())
				fmt.Fprint(w, strings.Join(output[k], ""))
				continue
			}
			fmt.Fprintf(w, "skipped as listed: %s: %s\n", k, reason)
		case "fail":
			if e.Test == "" {
				failures = append(failures, "package failed: "+k.pkg)
				continue
			}
			failed++
			failures = append(failures, "failed: "+k.String())
			fmt.Fprint(w, strings.Join(output[k], ""))
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("read go test output: %w", err)
	}
	for k := range allowed {
		if !seen[k] {
			failures = append(failures, "listed as skipped but not run at all: "+k.String())
		}
	}
	fmt.Fprintf(w, "%d packages; %d tests and subtests passed, %d failed, %d skipped\n", packages, passed, failed, skipped)
	if packages == 0 && len(failures) == 0 {
		return fmt.Errorf("no package was tested")
	}
	if len(failures) > 0 {
		slices.Sort(failures)
		return fmt.Errorf("%d problems:\n  %s", len(failures), strings.Join(failures, "\n  "))
	}
	return nil
}
