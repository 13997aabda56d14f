package world

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/corpus"
)

// answer is what an operation says, and the changes it would make.
type answer struct {
	result  any
	changes []change
}

// refusal is an error of the world that the caller sees as a tool error.
type refusal string

func (r refusal) Error() string { return string(r) }

func refusef(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// run performs an operation against docs without changing them.
func run(op *corpus.Op, args map[string]any, docs any) (answer, error) {
	switch op.Kind {
	case corpus.OpQuery:
		return query(op, args, docs)
	case corpus.OpGet:
		tokens := expandPointer(op.At, args)
		v, ok := corpus.Resolve(docs, tokens)
		if !ok {
			return answer{}, refusef("there is nothing at %s", name(tokens))
		}
		return answer{result: v}, nil
	case corpus.OpInsert:
		return insert(op, args, docs)
	case corpus.OpUpdate:
		return update(op, args, docs)
	case corpus.OpDelete:
		return del(op, args, docs)
	case corpus.OpSend:
		return send(op, args, docs)
	}
	return answer{}, fmt.Errorf("unknown operation %q", op.Kind)
}

// expandPointer replaces {arg} inside the tokens of a pointer. The text of an
// argument never splits a token, so no argument reaches outside its place.
func expandPointer(tmpl string, args map[string]any) []string {
	p := corpus.Expand(tmpl, func(n string) string { return corpus.EscapeToken(corpus.PlainText(args[n])) })
	tokens, err := corpus.ParsePointer(p)
	if err != nil {
		return nil
	}
	return tokens
}

// name shows a path to a model: the last token is what it asked for.
func name(tokens []string) string { return "/" + strings.Join(tokens, "/") }

// expandValue fills a template. ok is false when the whole value is an
// argument that was not given.
func expandValue(v any, args map[string]any) (out any, ok bool) {
	switch t := v.(type) {
	case string:
		if corpus.Whole(t) {
			out, ok = args[t[1:len(t)-1]]
			return out, ok
		}
		return corpus.Expand(t, func(n string) string { return corpus.PlainText(args[n]) }), true
	case []any:
		list := make([]any, 0, len(t))
		for _, e := range t {
			if x, ok := expandValue(e, args); ok {
				list = append(list, x)
			}
		}
		return list, true
	case map[string]any:
		m := make(map[string]any, len(t))
		for k, e := range t {
			if x, ok := expandValue(e, args); ok {
				m[k] = x
			}
		}
		return m, true
	}
	return v, true
}

func expandFields(fields map[string]corpus.Value, args map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(fields))
	for k, v := range fields {
		tree, err := v.Tree()
		if err != nil {
			return nil, err
		}
		if x, ok := expandValue(tree, args); ok {
			out[k] = x
		}
	}
	return out, nil
}

func query(op *corpus.Op, args map[string]any, docs any) (answer, error) {
	tokens := expandPointer(op.From, args)
	v, ok := corpus.Resolve(docs, tokens)
	if !ok {
		return answer{}, refusef("there is nothing at %s", name(tokens))
	}
	where, err := expandFields(op.Where, args)
	if err != nil {
		return answer{}, err
	}
	fits := func(e any) bool {
		m, ok := e.(map[string]any)
		if !ok {
			return len(where) == 0
		}
		for k, want := range where {
			if got, ok := m[k]; !ok || !corpus.EqualTrees(got, want) {
				return false
			}
		}
		return true
	}
	switch c := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(c))
		for k, e := range c {
			if fits(e) {
				out[k] = project(e, op.Fields)
			}
		}
		return answer{result: out}, nil
	case []any:
		out := make([]any, 0, len(c))
		for _, e := range c {
			if fits(e) {
				out = append(out, project(e, op.Fields))
			}
		}
		return answer{result: out}, nil
	}
	return answer{result: v}, nil
}

func project(v any, fields []string) any {
	m, ok := v.(map[string]any)
	if !ok || len(fields) == 0 {
		return v
	}
	out := make(map[string]any, len(fields))
	for _, f := range fields {
		if x, ok := m[f]; ok {
			out[f] = x
		}
	}
	return out
}

func insert(op *corpus.Op, args map[string]any, docs any) (answer, error) {
	tokens := expandPointer(op.At, args)
	tree, err := op.Value.Tree()
	if err != nil {
		return answer{}, err
	}
	value, _ := expandValue(tree, args)
	if old, ok := corpus.Resolve(docs, tokens); ok {
		switch op.Exists {
		case corpus.OnKeep:
			return answer{result: old}, nil
		case corpus.OnReplace:
		default:
			return answer{}, refusef("%s already exists", name(tokens))
		}
	}
	return change1(docs, tokens, value, value)
}

func update(op *corpus.Op, args map[string]any, docs any) (answer, error) {
	tokens := expandPointer(op.At, args)
	set, err := expandFields(op.Set, args)
	if err != nil {
		return answer{}, err
	}
	old, ok := corpus.Resolve(docs, tokens)
	if !ok && op.Missing != corpus.OnCreate {
		return answer{}, refusef("there is nothing at %s", name(tokens))
	}
	m, isObject := old.(map[string]any)
	if ok && !isObject {
		return answer{}, refusef("%s is no record with fields", name(tokens))
	}
	next := maps.Clone(m)
	if next == nil {
		next = map[string]any{}
	}
	maps.Copy(next, set)
	return change1(docs, tokens, next, next)
}

// change1 is an answer with one put, tried on docs so that a place that cannot
// be written is refused here and not when the record is applied.
func change1(docs any, tokens []string, value, result any) (answer, error) {
	if _, err := put(docs, tokens, value); err != nil {
		return answer{}, refusef("cannot write %s: %v", name(tokens), err)
	}
	c, err := putChange(tokens, value)
	if err != nil {
		return answer{}, err
	}
	return answer{result: result, changes: []change{c}}, nil
}

func del(op *corpus.Op, args map[string]any, docs any) (answer, error) {
	tokens := expandPointer(op.At, args)
	if _, ok := corpus.Resolve(docs, tokens); !ok {
		if op.Missing == corpus.OnIgnore {
			return answer{result: map[string]any{"deleted": false}}, nil
		}
		return answer{}, refusef("there is nothing at %s", name(tokens))
	}
	if _, err := remove(docs, tokens); err != nil {
		return answer{}, refusef("cannot delete %s: %v", name(tokens), err)
	}
	return answer{result: map[string]any{"deleted": true}, changes: []change{{Remove: tokens}}}, nil
}

// send makes a message and, with at, keeps it: under the next number in an
// object, at the end of an array.
func send(op *corpus.Op, args map[string]any, docs any) (answer, error) {
	plain := func(n string) string { return corpus.PlainText(args[n]) }
	msg := change{Sent: true, To: corpus.Expand(op.To, plain), Text: corpus.Expand(op.Text, plain)}
	a := answer{result: map[string]any{"sent": true, "to": msg.To}, changes: []change{msg}}
	if op.At == "" {
		return a, nil
	}
	tokens := expandPointer(op.At, args)
	place, ok := corpus.Resolve(docs, tokens)
	if !ok {
		return answer{}, refusef("there is nothing at %s", name(tokens))
	}
	next := appendToken
	if m, ok := place.(map[string]any); ok {
		next = strconv.Itoa(len(m) + 1)
	}
	kept, err := change1(docs, append(slices.Clone(tokens), next), map[string]any{"to": msg.To, "text": msg.Text}, nil)
	if err != nil {
		return answer{}, err
	}
	a.changes = append(a.changes, kept.changes...)
	return a, nil
}
