package corpus

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

func (k *checker) tools() {
	if len(k.c.Tools) == 0 {
		k.at(pathOf("tools"), "the case has no tools")
	}
	seen := map[string]int{}
	for i := range k.c.Tools {
		t := &k.c.Tools[i]
		p := pathOf("tools", i)
		k.id(sub(p, "name"), "tool name", t.Name)
		k.unique(seen, sub(p, "name"), "tool name", t.Name)
		k.text(sub(p, "description"), "description of tool "+t.Name, t.Description)
		k.word(sub(p, "action"), "action", t.Action, engine.ActionRead, engine.ActionDraft, engine.ActionWrite)
		k.word(sub(p, "op", "kind"), "operation kind", t.Op.Kind, OpKinds()...)
		if slices.Contains(OpKinds(), t.Op.Kind) && t.Op.Reads() != (t.Action == engine.ActionRead) {
			k.at(sub(p, "action"), "operation %s does not go with action %s", t.Op.Kind, t.Action)
		}
		args, err := compileArgs(t.Params)
		if err != nil {
			k.at(sub(p, "params"), "tool %s: %v", t.Name, err)
			continue
		}
		t.args = args
		k.op(sub(p, "op"), &t.Op, args)
		for j, f := range t.Identity.Target {
			if !args.Requires(f) {
				k.at(sub(p, "identity", "target", j), "target %q of tool %s is no required parameter", f, t.Name)
			}
		}
		for j, f := range t.Identity.Volatile {
			if !args.Has(f) {
				k.at(sub(p, "identity", "volatile", j), "volatile %q of tool %s is no parameter", f, t.Name)
			}
		}
	}
}

// opFields lists the fields of each kind: a leading ! means required.
var opFields = map[string][]string{
	OpQuery:  {"!from", "where", "fields"},
	OpGet:    {"!at"},
	OpInsert: {"!at", "!value", "exists"},
	OpUpdate: {"!at", "!set", "missing"},
	OpDelete: {"!at", "missing"},
	OpSend:   {"!to", "!text", "at"},
}

func (k *checker) op(p []any, o *Op, args *ArgSchema) {
	fields, ok := opFields[o.Kind]
	if !ok {
		return
	}
	given := map[string]bool{
		"from": o.From != "", "at": o.At != "", "where": o.Where != nil, "fields": o.Fields != nil,
		"value": o.Value.Given(), "exists": o.Exists != "", "set": len(o.Set) > 0,
		"missing": o.Missing != "", "to": o.To != "", "text": o.Text != "",
	}
	for _, f := range sortedKeys(given) {
		required := slices.Contains(fields, "!"+f)
		switch {
		case required && !given[f]:
			k.at(p, "operation %s needs %s", o.Kind, f)
		case given[f] && !required && !slices.Contains(fields, f):
			k.at(sub(p, f), "operation %s has no %s", o.Kind, f)
		}
	}
	if o.Exists != "" {
		k.word(sub(p, "exists"), "exists", o.Exists, OnError, OnKeep, OnReplace)
	}
	if o.Missing != "" && o.Kind == OpUpdate {
		k.word(sub(p, "missing"), "missing", o.Missing, OnError, OnCreate)
	}
	if o.Missing != "" && o.Kind == OpDelete {
		k.word(sub(p, "missing"), "missing", o.Missing, OnError, OnIgnore)
	}
	if o.From != "" {
		k.pointer(sub(p, "from"), o.From, args)
	}
	if o.At != "" {
		k.pointer(sub(p, "at"), o.At, args)
	}
	k.placeholders(sub(p, "to"), o.To, args, true)
	k.placeholders(sub(p, "text"), o.Text, args, true)
	for _, f := range sortedKeys(o.Where) {
		k.template(sub(p, "where", f), o.Where[f], args)
	}
	for _, f := range sortedKeys(o.Set) {
		k.template(sub(p, "set", f), o.Set[f], args)
	}
	k.template(sub(p, "value"), o.Value, args)
}

// template checks the placeholders of every string of a value.
func (k *checker) template(p []any, v Value, args *ArgSchema) {
	if !v.Given() {
		return
	}
	tree, err := v.Tree()
	if err != nil {
		k.at(p, "%v", err)
		return
	}
	var walk func(v any)
	walk = func(v any) {
		switch t := v.(type) {
		case string:
			k.placeholders(p, t, args, !Whole(t))
		case []any:
			for _, e := range t {
				walk(e)
			}
		case map[string]any:
			for _, f := range sortedKeys(t) {
				walk(t[f])
			}
		}
	}
	walk(tree)
}

// Whole reports whether a template is exactly one placeholder and so takes
// the argument's value, not its text.
func Whole(s string) bool {
	return len(s) > 2 && s[0] == '{' && strings.IndexByte(s, '}') == len(s)-1
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Documents decodes the documents at the start of a trial; each call returns
// fresh trees.
func (c *Case) Documents() (map[string]any, error) {
	out := make(map[string]any, len(c.World.Documents))
	for name, v := range c.World.Documents {
		t, err := DecodeTree(json.RawMessage(v))
		if err != nil {
			return nil, err
		}
		out[name] = t
	}
	return out, nil
}
