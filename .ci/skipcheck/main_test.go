package main

import (
	"io"
	"strings"
	"testing"
)

const clean = `{"Action":"run","Package":"github.com/agentrooms/qualify/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/agentrooms/qualify/a","Test":"TestOne","Output":"--- PASS: TestOne (0.00s)\n"}
{"Action":"pass","Package":"github.com/agentrooms/qualify/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/agentrooms/qualify/a","Output":"ok  \tgithub.com/agentrooms/qualify/a\t0.01s\n"}
{"Action":"pass","Package":"github.com/agentrooms/qualify/a"}
{"Action":"skip","Package":"github.com/agentrooms/qualify/b"}
`

const skip = `{"Action":"output","Package":"github.com/agentrooms/qualify/a","Test":"TestTwo","Output":"    x_test.go:9: no data\n"}
{"Action":"skip","Package":"github.com/agentrooms/qualify/a","Test":"TestTwo"}
`

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, run, skips, out, err string
	}{
		{"all passed", clean, "", "--- PASS: TestOne", ""},
		{"closing line", clean, "", "ok  \tgithub.com/agentrooms/qualify/a", ""},
		{"totals", clean, "", "1 packages; 1 tests and subtests passed, 0 failed, 0 skipped", ""},
		{"unlisted skip", clean + skip, "", "no data", "skipped without a listed reason: a TestTwo"},
		{"listed skip", clean + skip, "a TestTwo needs shared data", "skipped as listed: a TestTwo: needs shared data", ""},
		{"stale entry", clean, "a TestGone was here", "", "not run at all: a TestGone"},
		{"failure", clean + `{"Action":"fail","Package":"github.com/agentrooms/qualify/a","Test":"TestThree"}`, "", "", "failed: a TestThree"},
		{"package failure", clean + `{"Action":"fail","Package":"github.com/agentrooms/qualify/c"}`, "", "", "package failed: c"},
		{"build failure", clean + `{"ImportPath":"x/d","Action":"build-fail"}`, "", "", "build failed: x/d"},
		{"nothing ran", "", "", "", "no package was tested"},
		{"plain lines pass through", "make: note\n" + clean, "", "make: note", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			allowed, err := readSkips(strings.NewReader(tc.skips))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = check(strings.NewReader(tc.run), &out, allowed)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if !strings.Contains(out.String(), tc.out) {
				t.Errorf("output lacks %q:\n%s", tc.out, out.String())
			}
		})
	}
}

func TestSkipNeedsReason(t *testing.T) {
	t.Parallel()
	if _, err := readSkips(strings.NewReader("# fine\n\na TestTwo\n")); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("error %v, want one that names line 3", err)
	}
	if err := check(io.LimitReader(strings.NewReader(clean), 0), io.Discard, nil); err == nil {
		t.Error("an empty run passed")
	}
}
