package lint

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// otherArg is a call's arguments with one of them changed.
type otherArg struct {
	name, value string
	args        corpus.Value
}

// otherArgs changes each argument by itself to every other value at hand that
// the tool's schema takes: the other members of an enumeration, the next whole
// numbers, the other truth value, a text with another last digit, a longer
// text, and other words; an argument that does not count for the effect's
// identity, which is prose, to other words only. In the order of names and of
// this list.
func otherArgs(t *corpus.Tool, args corpus.Value) []otherArg {
	given := object(args)
	var out []otherArg
	for _, name := range keys(given) {
		seen := map[string]bool{}
		values := otherValues(schemaOf(t, name), given[name])
		if slices.Contains(t.Identity.Volatile, name) {
			values = []any{otherWords}
		}
		for _, v := range values {
			next := maps.Clone(given)
			next[name] = v
			canon, err := engine.Canonical(next)
			if err != nil || seen[string(canon)] || corpus.EqualTrees(next, given) {
				continue
			}
			seen[string(canon)] = true
			if _, err := t.Args().Check(canon); err == nil {
				out = append(out, otherArg{name, corpus.PlainText(v), canon})
			}
		}
	}
	return out
}

// schemaOf is the schema of one argument, nil when the tool declares none.
func schemaOf(t *corpus.Tool, name string) map[string]any {
	props, _ := object(t.Params)["properties"].(map[string]any)
	schema, _ := props[name].(map[string]any)
	return schema
}

func otherValues(schema map[string]any, v any) []any {
	if list, ok := schema["enum"].([]any); ok {
		return list
	}
	switch x := v.(type) {
	case bool:
		return []any{!x}
	case json.Number:
		n, ok := new(big.Rat).SetString(x.String())
		if !ok || !n.IsInt() {
			return nil
		}
		one := big.NewInt(1)
		return []any{
			json.Number(new(big.Int).Add(n.Num(), one).String()),
			json.Number(new(big.Int).Sub(n.Num(), one).String()),
		}
	case string:
		return []any{otherDigit(x), x + "-x", otherWords}
	}
	return nil
}

// otherDigit is a text with its last digit turned to the next one.
func otherDigit(s string) string {
	i := strings.LastIndexAny(s, "0123456789")
	if i < 0 {
		return s
	}
	return s[:i] + string('0'+(s[i]-'0'+1)%10) + s[i+1:]
}
