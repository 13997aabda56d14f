package main

import (
	"fmt"

	"github.com/agentrooms/qualify/reports"
)

// schemaRef heads every --json document.
type schemaRef struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// printJSON writes one document to stdout.
func (a *app) printJSON(doc any) error { return reports.JSON(a.out, doc) }

// printf writes data to stdout; a failed write comes back from the flush at
// the end of run.
func (a *app) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(a.out, format, args...)
}

// talkf writes one line of talk to stderr.
func (a *app) talkf(format string, args ...any) {
	_, _ = fmt.Fprintln(a.err, oneLine(fmt.Sprintf(format, args...)))
}

// plural writes a number of things whose name takes an s.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
