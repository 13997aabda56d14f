package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/evaluator/trace"
)

// shortText is how much of a text a timeline shows without --full, in runes.
const shortText = 96

// showTrace prints a trace as a timeline. It reads strictly: a faulty trace
// is bad input, named with its line.
func (a *app) showTrace(name string, r io.Reader, full bool) error {
	rd := trace.NewReader(r)
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return usagef("%s: %w", name, err)
		}
		a.showRecord(rec, full)
	}
}

func (a *app) showRecord(rec trace.Record, full bool) {
	cut := func(s string) string {
		s = oneLine(s)
		if runes := []rune(s); !full && len(runes) > shortText {
			return string(runes[:shortText]) + "…"
		}
		return s
	}
	line := func(atUS int64, kind, format string, args ...any) {
		a.printf("%12s  %-8s %s\n", seconds(atUS), kind, cut(fmt.Sprintf(format, args...)))
	}
	switch {
	case rec.Header != nil:
		h := rec.Header
		a.printf("trial      %s\ncampaign   %s\narm        %s, mode %s, machine %s\ncase       %s of family %s, split %s\n"+
			"model      %s, %s, clock %s, world seed %s\nlimits     USD %s, %d model calls, %d tool calls, %d minutes\n\n",
			oneLine(keyOf(*h)), oneLine(h.Campaign), oneLine(h.Arm), oneLine(h.Mode), oneLine(h.Machine), oneLine(h.Case),
			oneLine(h.Family), oneLine(h.Split), oneLine(h.Model), oneLine(h.Evidence), oneLine(h.Clock), oneLine(h.WorldSeed),
			usd(h.Limits.BudgetMicros), h.Limits.ModelCalls, h.Limits.ToolCalls, h.Limits.Minutes)
	case rec.Owner != nil:
		line(rec.Owner.AtUS, "owner", "%s %s from %s: %s", rec.Owner.Type, rec.Owner.ID, rec.Owner.From, rec.Owner.Text)
	case rec.Event != nil:
		label, text := describeEvent(rec.Event)
		line(rec.Event.AtUS, label, "%s", text)
	case rec.Op != nil:
		line(rec.Op.AtUS, "op", "%s", describeOp(rec.Op))
	case rec.Effect != nil:
		e := rec.Effect
		line(e.AtUS, "effect", "%s %s %s %s%s", e.State, e.Tool, e.Target, e.Args, effectNotes(e))
	case rec.End != nil:
		a.showEnd(rec.End, cut)
	}
}

func describeOp(o *trace.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", o.Kind, o.Outcome)
	for _, f := range []struct{ name, value string }{
		{"", o.Tool}, {"by ", o.Agent}, {"fault ", o.FaultKind}, {"task ", o.Task},
	} {
		if f.value != "" {
			b.WriteString(", " + f.name + f.value)
		}
	}
	if o.Reserved > 0 {
		fmt.Fprintf(&b, ", charged %s of %s", usd(o.Charged), usd(o.Reserved))
	}
	if o.Held > 0 {
		fmt.Fprintf(&b, ", held %s", usd(o.Held))
	}
	if o.Source != "" {
		b.WriteString(" (" + o.Source + ")")
	}
	fmt.Fprintf(&b, ", took %s s, %s", seconds(o.AtUS-o.StartUS), o.Op)
	return b.String()
}

func effectNotes(e *trace.Effect) string {
	notes := ""
	if e.Suppressed {
		notes += ", suppressed as a repeat"
	}
	if e.Ack == "lost" {
		notes += ", acknowledgement lost"
	}
	if e.FaultKind != "" {
		notes += ", fault " + e.FaultKind
	}
	return notes
}

func (a *app) showEnd(e *trace.End, cut func(string) string) {
	a.printf("\nend        %s after %s s\n", oneLine(e.Termination), seconds(e.AtUS))
	if e.Claim != nil {
		a.printf("claim      by %s at %s s\n", oneLine(e.Claim.By), seconds(e.Claim.AtUS))
	} else {
		a.printf("claim      none stands\n")
	}
	a.printf("money      charged %s, held %s, unknown %s\n", usd(e.Money.Charged), usd(e.Money.Held), usd(e.Money.Unknown))
	for _, d := range e.Artifacts {
		a.printf("artifact   %s\n", cut(fmt.Sprintf("%s version %d by %s: %s", d.Name, d.Version, d.By, d.Text)))
	}
	for _, m := range e.Messages {
		to, via := "", ""
		if m.To != "" {
			to = " to " + m.To
		}
		if m.Via != "" {
			via = " via " + m.Via
		}
		a.printf("message    %s\n", cut(fmt.Sprintf("at %s s from %s%s%s: %s", seconds(m.AtUS), m.From, to, via, m.Text)))
	}
	a.printf("digest     %s\n", oneLine(e.Digest))
}

// seconds writes microseconds as seconds with all six places.
func seconds(us int64) string {
	sign := ""
	if us < 0 {
		sign, us = "-", -us
	}
	return sign + strconv.FormatInt(us/1_000_000, 10) + fmt.Sprintf(".%06d", us%1_000_000)
}
