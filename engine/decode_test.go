package engine_test

import (
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
)

func TestDecodeCanonical_TakesOneSpellingOnly(t *testing.T) {
	t.Parallel()
	type inner struct {
		N *float64 `json:"n"`
	}
	type doc struct {
		A int      `json:"a"`
		B []string `json:"b"`
		C inner    `json:"c"`
	}
	const good = `{"a":1,"b":["x"],"c":{"n":0.5}}`
	var d doc
	if err := engine.DecodeCanonical([]byte(good), &d); err != nil || d.A != 1 || len(d.B) != 1 || *d.C.N != 0.5 {
		t.Fatalf("%+v, %v", d, err)
	}
	for text, words := range map[string]string{
		`{"a":1,"b":["x"],"c":{"n":0.50}}`:             "canonical form from byte 29",
		`{"a":1.0,"b":["x"],"c":{"n":0.5}}`:            "1.0",
		`{"b":["x"],"a":1,"c":{"n":0.5}}`:              "canonical form from byte 2",
		`{"a":1,"b":["\u0078"],"c":{"n":0.5}}`:         "canonical form",
		`{"A":1,"b":["x"],"c":{"n":0.5}}`:              "canonical form",
		`{"a":1, "b":["x"],"c":{"n":0.5}}`:             "canonical form from byte 7",
		`{"a":1,"b":["x"]}`:                            "canonical form",
		`{"a":1,"a":1,"b":["x"],"c":{"n":0.5}}`:        `key "a" twice`,
		`{"a":1,"b":["x"],"c":{"n":0.5},"d":1}`:        `unknown field "d"`,
		`{"a":1,"b":["x"],"c":{"n":0.5,"m":1}}`:        `unknown field "m"`,
		good + `{}`:                                    "after top-level value",
		good + "\n":                                    "canonical form from byte 31",
		`{"a":1,"b":["x"],"c":{"n":0.5}`:               "unexpected end",
		``:                                             "unexpected end",
		`null`:                                         "canonical form",
		"{\"a\":1,\"b\":[\"\xff\"],\"c\":{\"n\":0.5}}": "canonical form",
	} {
		if err := engine.DecodeCanonical([]byte(text), new(doc)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v, want %s", text, err, words)
		}
	}
}
