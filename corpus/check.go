package corpus

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// checker gathers the faults of one case.
type checker struct {
	c   *Case
	src *Source
}

func check(c *Case, src *Source) {
	k := checker{c, src}
	k.head()
	k.room()
	k.tools()
	k.owner()
	k.faults()
}

// at adds a fault at a path of the file.
func (k *checker) at(p []any, format string, args ...any) {
	k.src.Addf(k.src.Line(p...), format, args...)
}

func pathOf(p ...any) []any { return p }

func sub(p []any, more ...any) []any { return append(slices.Clone(p), more...) }

func (k *checker) id(p []any, what, id string) {
	switch {
	case id == "":
		k.at(p, "%s is missing", what)
	case !idForm.MatchString(id):
		k.at(p, "%s %q must be lower-case letters, digits, - and _", what, id)
	}
}

func (k *checker) text(p []any, what, s string) {
	if strings.TrimSpace(s) == "" {
		k.at(p, "%s is missing", what)
	}
}

func (k *checker) word(p []any, what, s string, allowed ...string) {
	if !slices.Contains(allowed, s) {
		k.at(p, "%s %q must be one of %s", what, s, strings.Join(allowed, ", "))
	}
}

func (k *checker) atLeast(p []any, what string, n, least int) {
	if n < least {
		k.at(p, "%s must be at least %d", what, least)
	}
}

// Bounds of a case: far above any real one, and low enough that no sum over a
// campaign and no time in microseconds leaves 64 bits.
const (
	maxBudget  = 1_000_000_000_000 // micros: a million USD a trial
	maxCalls   = 1_000_000         // of a model, of tools, at once
	maxMinutes = 366 * 24 * 60     // of trial time
	maxThink   = 60 * maxMinutes   // seconds
)

func (k *checker) between(p []any, what string, n, least, most int) {
	k.atLeast(p, what, n, least)
	if n > most {
		k.at(p, "%s must be at most %d", what, most)
	}
}

// unique reports a repeated id with both places. The first place of each id is
// kept in seen.
func (k *checker) unique(seen map[string]int, p []any, what, id string) {
	if id == "" {
		return
	}
	line := k.src.Line(p...)
	if first, ok := seen[id]; ok {
		k.src.Addf(line, "%s %q is already used at %s:%d", what, id, k.src.File, first)
		return
	}
	seen[id] = line
}

func (k *checker) head() {
	c := k.c
	if c.Schema != Schema {
		k.at(pathOf("schema"), "schema %q must be %s", c.Schema, Schema)
	}
	k.id(pathOf("id"), "id", c.ID)
	if stem := strings.TrimSuffix(path.Base(c.file), ".yaml"); c.ID != "" && stem != c.ID {
		k.at(pathOf("id"), "id %q differs from the file name %q", c.ID, stem)
	}
	folder := path.Base(path.Dir(c.file))
	k.id(pathOf("family"), "family", c.Family)
	if Reserved(c.Family) {
		k.at(pathOf("family"), "family %q is a reserved name", c.Family)
	}
	if c.Family != "" && c.Family != folder {
		k.at(pathOf("family"), "family %q differs from the folder %q", c.Family, folder)
	}
	k.word(pathOf("split"), "split", c.Split, SplitDev, SplitHoldout)
	k.text(pathOf("title"), "title", c.Title)
	for i, t := range c.Tags {
		k.id(pathOf("tags", i), "tag", t)
	}
	if len(c.World.Documents) == 0 {
		k.at(pathOf("world", "documents"), "the world holds no documents")
	}
	for _, name := range sortedKeys(c.World.Documents) {
		k.id(pathOf("world", "documents", name), "document name", name)
		if !c.World.Documents[name].Given() {
			k.at(pathOf("world", "documents", name), "document %q is null", name)
		}
	}
}

func (k *checker) room() {
	r := &k.c.Room
	k.text(pathOf("room", "goal"), "goal", r.Goal)
	k.id(pathOf("room", "owner", "id"), "owner id", r.Owner.ID)
	k.text(pathOf("room", "owner", "name"), "owner name", r.Owner.Name)
	ids := map[string]int{}
	k.unique(ids, pathOf("room", "owner", "id"), "participant id", r.Owner.ID)
	names := map[string]string{}
	for i, a := range r.Agents {
		p := pathOf("room", "agents", i)
		k.id(sub(p, "id"), "agent id", a.ID)
		k.unique(ids, sub(p, "id"), "participant id", a.ID)
		k.id(sub(p, "agent"), "agent identity", a.Agent)
		k.word(sub(p, "role"), "role", a.Role, RoleSpecialist, RoleReviewer)
		k.text(sub(p, "description"), "description", a.Description)
		for j, al := range append([]string{a.ID}, a.Aliases...) {
			key := strings.ToLower(strings.TrimSpace(al))
			if other, ok := names[key]; ok && other != a.ID {
				k.at(sub(p, "aliases", max(j-1, 0)), "alias %q of %s is also a name of %s", al, a.ID, other)
			}
			names[key] = a.ID
		}
		seen := map[string]int{}
		for j, t := range a.Tools {
			k.unique(seen, sub(p, "tools", j), "tool of "+a.ID, t)
			if _, ok := k.c.Tool(t); !ok {
				k.at(sub(p, "tools", j), "agent %s names unknown tool %q", a.ID, t)
			}
		}
	}
	if !slices.ContainsFunc(r.Agents, func(a Agent) bool { return a.Role == RoleSpecialist }) {
		k.at(pathOf("room", "agents"), "the room has no specialist")
	}
	seen := map[string]int{}
	for i, c := range r.Criteria {
		p := pathOf("room", "criteria", i)
		k.id(sub(p, "id"), "criterion id", c.ID)
		k.unique(seen, sub(p, "id"), "criterion id", c.ID)
		k.text(sub(p, "text"), "criterion text", c.Text)
	}
	p := pathOf("room", "limits")
	k.between(sub(p, "budget_usd"), "budget_usd in micros", int(r.Limits.Budget), 1, maxBudget)
	k.between(sub(p, "model_calls"), "model_calls", r.Limits.ModelCalls, 1, maxCalls)
	k.between(sub(p, "tool_calls"), "tool_calls", r.Limits.ToolCalls, 1, maxCalls)
	k.between(sub(p, "minutes"), "minutes", r.Limits.Minutes, 1, maxMinutes)
	k.between(sub(p, "parallel"), "parallel", r.Limits.Parallel, 1, maxCalls)
}

func (k *checker) owner() {
	o := &k.c.Owner
	p := pathOf("owner")
	k.between(sub(p, "think_seconds"), "think_seconds", o.ThinkSeconds, 0, maxThink)
	if len(o.Messages) == 0 {
		k.at(sub(p, "messages"), "the owner says nothing")
	}
	seen := map[string]int{}
	for i := range o.Messages {
		m := &o.Messages[i]
		q := sub(p, "messages", i)
		k.id(sub(q, "id"), "message id", m.ID)
		k.unique(seen, sub(q, "id"), "owner message id", m.ID)
		k.text(sub(q, "text"), "message text", m.Text)
		if m.Type != "" {
			k.word(sub(q, "type"), "message type", m.Type, engine.MsgRequest, engine.MsgReply, engine.MsgCorrection,
				engine.MsgRedirect, engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover)
		}
		if m.When != nil {
			k.when(sub(q, "when"), m.When)
		}
	}
	if len(o.Messages) > 0 && !slices.ContainsFunc(o.Messages, func(m Say) bool { return m.When == nil }) {
		k.at(sub(p, "messages"), "no message is said at the start")
	}
	for i := range o.Corrections {
		c := &o.Corrections[i]
		q := sub(p, "corrections", i)
		k.id(sub(q, "id"), "correction id", c.ID)
		k.unique(seen, sub(q, "id"), "owner message id", c.ID)
		k.text(sub(q, "text"), "correction text", c.Text)
		k.word(sub(q, "type"), "correction type", c.Type, engine.MsgCorrection, engine.MsgRedirect,
			engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover)
		k.atLeast(sub(q, "max"), "max", c.Max, 1)
		if c.When == nil {
			k.at(q, "correction %q has no when", c.ID)
			continue
		}
		k.when(sub(q, "when"), c.When)
	}
	if len(o.Corrections) > 0 {
		k.atLeast(sub(p, "patience"), "patience", o.Patience, 1)
	}
}

func (k *checker) when(p []any, w *When) {
	k.word(sub(p, "after"), "after", w.After, AfterClaim, AfterMessage, AfterTime)
	if (w.After == AfterTime) != (w.Seconds > 0) {
		k.at(p, "seconds, at least 1, go with after: time and only with it")
	}
	k.between(sub(p, "seconds"), "seconds", w.Seconds, 0, maxThink)
	if (w.After == AfterMessage) != (w.Contains != "") {
		k.at(p, "contains goes with after: message and only with it")
	}
	if w.Document == "" {
		if w.Is.Given() || w.IsNot.Given() {
			k.at(p, "is and is_not need a document")
		}
		return
	}
	k.pointer(sub(p, "document"), w.Document, nil)
	if w.Is.Given() == w.IsNot.Given() {
		k.at(p, "a document condition needs one of is and is_not")
	}
}

// pointer checks a JSON Pointer template: form, document, and placeholders
// against the arguments (nil: none allowed).
func (k *checker) pointer(p []any, tmpl string, args *ArgSchema) {
	tokens, err := ParsePointer(tmpl)
	if err != nil {
		k.at(p, "%v", err)
		return
	}
	if len(tokens) == 0 {
		k.at(p, "the pointer names no document")
		return
	}
	if _, ok := k.c.World.Documents[tokens[0]]; !ok && !strings.Contains(tokens[0], "{") {
		k.at(p, "pointer %q names unknown document %q", tmpl, tokens[0])
	}
	k.placeholders(p, tmpl, args, true)
}

// placeholders checks that every {name} is an argument, and a required one
// where the text cannot be built without it.
func (k *checker) placeholders(p []any, tmpl string, args *ArgSchema, required bool) {
	names, err := Placeholders(tmpl)
	if err != nil {
		k.at(p, "%v", err)
		return
	}
	for _, n := range names {
		switch {
		case args == nil:
			k.at(p, "a placeholder {%s} has no meaning here", n)
		case !args.Has(n):
			k.at(p, "placeholder {%s} names no parameter", n)
		case required && !args.Requires(n):
			k.at(p, "placeholder {%s} names an optional parameter; it must be required here", n)
		}
	}
}

func (k *checker) faults() {
	seen, places := map[string]int{}, map[string]int{}
	for i, f := range k.c.Faults {
		p := pathOf("faults", i)
		k.id(sub(p, "id"), "fault id", f.ID)
		k.unique(seen, sub(p, "id"), "fault id", f.ID)
		// One call reports one fault, so two on the same call could not both be counted.
		place := fmt.Sprintf("call %d of %s", f.Call, f.Tool)
		if f.Target != nil {
			place += " on " + *f.Target
		}
		k.unique(places, p, "a fault's place, "+f.ID+" at", place)
		k.word(sub(p, "kind"), "fault kind", f.Kind, FaultKinds()...)
		k.atLeast(sub(p, "call"), "call", f.Call, 1)
		if f.Factor != 0 && f.Kind != FaultSlow {
			k.at(sub(p, "factor"), "factor goes with kind slow only")
		} else if f.Factor < 0 || f.Factor == 1 {
			k.at(sub(p, "factor"), "factor must be at least 2")
		}
		t, ok := k.c.Tool(f.Tool)
		if !ok {
			k.at(sub(p, "tool"), "fault names unknown tool %q", f.Tool)
			continue
		}
		if f.Target != nil && len(t.Identity.Target) == 0 {
			k.at(sub(p, "target"), "tool %s declares no identity.target, so no call has target %q", f.Tool, *f.Target)
		}
		if f.Kind == FaultAckLostAfterCommit && t.Op.Reads() {
			k.at(sub(p, "kind"), "%s needs a tool with an effect; %s reads", f.Kind, f.Tool)
		}
		if f.Kind == FaultStaleRead && !t.Op.Reads() {
			k.at(sub(p, "kind"), "%s needs a tool that reads; %s does not", f.Kind, f.Tool)
		}
	}
}
