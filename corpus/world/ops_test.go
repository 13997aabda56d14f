package world_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const startDocs = `{"box":{},"items":{"a/b":{"kind":"box","n":1},"c~d":{"kind":"bag","n":2},"plain":{"kind":"box","n":3.5}},"log":[]}`

func TestWorld_Operations(t *testing.T) {
	t.Parallel()
	c := load(t, quietOwner, "")
	tests := []struct {
		name, tool, args string
		outcome          string
		result           string // exact for ok, part for error
		changed          [2]string
	}{
		{"query all", "list", `{}`, "ok", `{"a/b":{"n":1},"c~d":{"n":2},"plain":{"n":3.5}}`, [2]string{}},
		{"query with where", "list", `{"kind":"bag"}`, "ok", `{"c~d":{"n":2}}`, [2]string{}},
		{"get escapes /", "get", `{"id":"a/b"}`, "ok", `{"kind":"box","n":1}`, [2]string{}},
		{"get escapes ~", "get", `{"id":"c~d"}`, "ok", `{"kind":"bag","n":2}`, [2]string{}},
		{"an argument cannot climb", "get", `{"id":"plain/kind"}`, "error", "there is nothing at /items/plain/kind", [2]string{}},
		{"get missing", "get", `{"id":"none"}`, "error", "there is nothing at /items/none", [2]string{}},
		{"insert fills templates", "add", `{"id":"new","n":2.50}`, "ok", `{"kind":"box","label":"item new x2.5","n":2.5}`, [2]string{`"plain":`, `"new":{"kind":"box","label":"item new x2.5","n":2.5},"plain":`}},
		{"insert with the optional argument", "add", `{"id":"new","n":1,"note":"hi"}`, "ok", `{"kind":"box","label":"item new x1","n":1,"note":"hi"}`, [2]string{`"plain":`, `"new":{"kind":"box","label":"item new x1","n":1,"note":"hi"},"plain":`}},
		{"insert existing", "add", `{"id":"plain","n":1}`, "error", "/items/plain already exists", [2]string{}},
		{"insert appends", "log", `{"line":"x"}`, "ok", `"x"`, [2]string{`"log":[]`, `"log":["x"]`}},
		{"insert keeps", "keep", `{"id":"plain"}`, "ok", `{"kind":"box","n":3.5}`, [2]string{}},
		{"insert replaces", "swap", `{"id":"plain"}`, "ok", `{"n":9}`, [2]string{`{"kind":"box","n":3.5}`, `{"n":9}`}},
		{"update", "set", `{"id":"plain","n":4}`, "ok", `{"kind":"box","n":4}`, [2]string{`"n":3.5`, `"n":4`}},
		{"update missing", "set", `{"id":"none","n":4}`, "error", "there is nothing at /items/none", [2]string{}},
		{"update creates", "make", `{"id":"zoo","n":4}`, "ok", `{"n":4}`, [2]string{`"n":3.5}`, `"n":3.5},"zoo":{"n":4}`}},
		{"delete", "drop", `{"id":"plain"}`, "ok", `{"deleted":true}`, [2]string{`,"plain":{"kind":"box","n":3.5}`, ""}},
		{"delete missing", "drop", `{"id":"none"}`, "error", "there is nothing at /items/none", [2]string{}},
		{"delete missing, ignored", "toss", `{"id":"none"}`, "ok", `{"deleted":false}`, [2]string{}},
		{"send into an object", "mail", `{"to":"ana","text":"hi"}`, "ok", `{"sent":true,"to":"ana"}`, [2]string{`"box":{}`, `"box":{"1":{"text":"hi","to":"ana"}}`}},
		{"send into a list", "memo", `{"text":"hi"}`, "ok", `{"sent":true,"to":"all"}`, [2]string{`"log":[]`, `"log":[{"text":"Memo: hi","to":"all"}]`}},
		{"unknown tool", "fly", `{}`, "error", `there is no tool "fly"`, [2]string{}},
		{"bad JSON", "set", `{"id":`, "error", "not valid JSON", [2]string{}},
		{"no object", "set", `[]`, "error", "must be a JSON object", [2]string{}},
		{"wrong type", "set", `{"id":"plain","n":"4"}`, "error", "invalid arguments: n: got string, want integer", [2]string{}},
		{"extra argument", "set", `{"id":"plain","n":4,"x":1}`, "error", "additional properties 'x' not allowed", [2]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c)
			out := b.do(tt.tool, tt.args, "")
			if out.Outcome != tt.outcome {
				t.Fatalf("outcome %s (%s), want %s", out.Outcome, out.Result, tt.outcome)
			}
			if tt.outcome == "ok" && string(out.Result) != tt.result || !strings.Contains(string(out.Result), tt.result) {
				t.Errorf("result %s, want %s", out.Result, tt.result)
			}
			want := startDocs
			if tt.changed[0] != "" {
				want = strings.Replace(startDocs, tt.changed[0], tt.changed[1], 1)
			}
			if diff := cmp.Diff(want, b.docs()); diff != "" {
				t.Error(diff)
			}
			if changed := want != startDocs; changed != (out.Effect != nil) {
				t.Errorf("effect %v, documents changed %v", out.Effect, changed)
			}
		})
	}
}

func TestWorld_MessagesNameSenderReceiverAndTool(t *testing.T) {
	t.Parallel()
	b := newBench(t, load(t, quietOwner, ""))
	b.do("mail", `{"to":"ana","text":"one"}`, "")
	b.do("memo", `{"text":"two"}`, "")
	var got []string
	for _, m := range b.w.Messages() {
		got = append(got, m.From+">"+m.To+" "+m.Via+": "+m.Text)
	}
	if diff := cmp.Diff([]string{"clerk>ana mail: one", "clerk>all memo: Memo: two"}, got); diff != "" {
		t.Error(diff)
	}
}
