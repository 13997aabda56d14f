package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Exit codes (DESIGN §7). Scripts and gates depend on them.
const (
	exitOK           = 0   // done, PASS
	exitFail         = 1   // FAIL, or a verify or lint command found something
	exitInconclusive = 2   // INCONCLUSIVE
	exitUsage        = 3   // bad usage or input
	exitInternal     = 4   // internal fault
	exitRefused      = 5   // refused by a protection: freeze, seal, unpriced model, version, lease
	exitLimit        = 6   // stopped by a limit; state saved, run again after lifting it
	exitInterrupted  = 130 // interrupted; state saved
	exitPipe         = 141 // the reader of stdout has gone, as the shell reports it; nothing is printed
)

// exitError is an error that knows its exit code. A nil err makes a verdict:
// the command has printed what it has to say, so nothing more is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "exit " + strconv.Itoa(e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// failf makes an error with an exit code; %w keeps the cause.
func failf(code int, format string, args ...any) error {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// usagef is an error in what the user gave: exit 3.
func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// verdict ends a command with code and without a line of its own.
func verdict(code int) error { return &exitError{code: code} }

// exitCode maps an error of a command to its exit code: its own code if it has
// one, else that of the sentinel in its chain, else internal fault.
func exitCode(err error) int {
	if errors.Is(err, syscall.EPIPE) {
		return exitPipe
	}
	var own *exitError
	if errors.As(err, &own) {
		return own.code
	}
	for _, m := range []struct {
		target error
		code   int
	}{
		{context.Canceled, exitInterrupted},
		{store.ErrSchemaNewer, exitRefused},
		{store.ErrSchemaOlder, exitRefused},
		{store.ErrLeaseLost, exitRefused},
		{store.ErrExhausted, exitLimit},
		{store.ErrHalted, exitLimit},
		{store.ErrReadOnly, exitRefused},
		{store.ErrCorrupt, exitUsage},
		{store.ErrFull, exitLimit},
		{syscall.ENOSPC, exitLimit},
		{syscall.EDQUOT, exitLimit},
		{syscall.EFBIG, exitLimit},
		{store.ErrBelowSpent, exitUsage},
		{store.ErrNotFound, exitUsage},
		{fs.ErrNotExist, exitUsage},
		{fs.ErrPermission, exitUsage},
		{syscall.EROFS, exitUsage},
		{syscall.ENOTDIR, exitUsage},
		{syscall.ENAMETOOLONG, exitUsage},
	} {
		if errors.Is(err, m.target) {
			return m.code
		}
	}
	if engine.CodeOf(err) == engine.CodeVersionMismatch {
		return exitRefused
	}
	return exitInternal
}

// report prints err as one line and returns its exit code. A verdict prints
// nothing.
func report(stderr io.Writer, err error) int {
	code := exitCode(err)
	var own *exitError
	if code == exitPipe || errors.As(err, &own) && own.err == nil {
		return code
	}
	text := lineOf(err)
	switch code {
	case exitInternal:
		text = "internal fault: " + text
	case exitInterrupted:
		text = "interrupted: " + text
	case exitRefused:
		if engine.CodeOf(err) == engine.CodeVersionMismatch {
			text += "; the build that made the room can still run and read it"
		}
		if errors.Is(err, store.ErrReadOnly) && own == nil {
			text += "; run as a user who may write to it, or name another with --store"
		}
	case exitLimit:
		switch {
		case errors.Is(err, store.ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
			text += "; what was stored is safe: make room, then run the same command again"
		case errors.Is(err, syscall.EFBIG):
			text += "; what was stored is safe: raise the limit on the size of files (ulimit -f), then run the same command again"
		}
	}
	// A stderr that cannot be written to leaves the exit code as the message.
	_, _ = io.WriteString(stderr, "qualify: "+clip(oneLine(text))+"\n")
	return code
}

// panicError turns a recovered panic into an internal fault that names the
// place in our code where it happened.
func panicError(p any) error {
	return failf(exitInternal, "panic: %v%s (a bug: please report this line)", p, panicSite())
}

// panicSite is " at file.go:line" of the innermost frame of this module below
// the panic, or "".
func panicSite() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	below := false
	for {
		f, more := frames.Next()
		if below && strings.HasPrefix(f.Function, "main.") || below && strings.HasPrefix(f.Function, modulePath) {
			return " at " + f.File[strings.LastIndexByte(f.File, '/')+1:] + ":" + strconv.Itoa(f.Line)
		}
		if f.Function == "runtime.gopanic" {
			below = true
		}
		if !more {
			return ""
		}
	}
}

// maxFaults is how many of several faults a line gives before it counts.
const maxFaults = 3

// lineOf is the text of err with the lines of its lists of faults side by
// side: the first few, and how many more there are.
func lineOf(err error) string {
	text := err.Error()
	for e := err; e != nil; e = errors.Unwrap(e) {
		list, ok := e.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		var lines, parts []string
		for _, p := range list.Unwrap() {
			lines, parts = append(lines, p.Error()), append(parts, lineOf(p))
		}
		if strings.Join(lines, "\n") != e.Error() {
			continue // several causes of one fault, not a list of faults
		}
		brief := strings.Join(parts[:min(len(parts), maxFaults)], "; ")
		if more := len(parts) - maxFaults; more > 0 {
			brief += fmt.Sprintf("; and %d more", more)
		}
		return strings.Replace(text, e.Error(), brief, 1)
	}
	return text
}

// maxLine bounds the line of an error, in bytes: what the user gave may be of
// any size.
const maxLine = 1000

// clip leaves out the middle of a long line.
func clip(s string) string {
	if len(s) <= maxLine {
		return s
	}
	head, tail := s[:maxLine*3/4], s[len(s)-maxLine/5:]
	return strings.ToValidUTF8(head, "") + " … " + strings.ToValidUTF8(tail, "")
}

// oneLine escapes whatever could break a line or drive a terminal: control
// and format characters, line separators and invalid UTF-8. The result is one
// line of printable text.
func oneLine(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}
