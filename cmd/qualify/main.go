// Command qualify replays one corpus of agent-room cases through three
// coordination modes under one USD ceiling and scores the traces.
//
// Data goes to stdout, talk and progress to stderr. Exit codes are stable; see
// exit.go. The command line may change before version 1; its --json documents
// and exit codes may not.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A pipe whose reader has gone is an error of the write: talk that nobody
	// reads does not end a campaign.
	signal.Ignore(syscall.SIGPIPE)
	collectRarely()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal lets a run finish its calls and save; the next one finds
	// the default handling again and ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code. Every failure is
// one line on stderr; no panic leaves it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return guard(stderr, func() error {
		a := newApp(stdin, stdout, stderr)
		err := a.execute(ctx, args)
		if ferr := a.out.Flush(); ferr != nil && err == nil {
			return failf(exitInternal, "write output: %w", ferr)
		}
		return err
	})
}

// guard turns what f returns, or panics with, into an exit code and at most
// one line on stderr.
func guard(stderr io.Writer, f func() error) (code int) {
	defer func() {
		if p := recover(); p != nil {
			code = report(stderr, panicError(p))
		}
	}()
	if err := f(); err != nil {
		return report(stderr, err)
	}
	return exitOK
}
