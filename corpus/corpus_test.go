package corpus_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestParseMoney(t *testing.T) {
	t.Parallel()
	good := map[string]corpus.Money{
		"0": 0, "0.08": 80_000, "5": 5_000_000, "1.000001": 1_000_001, "12.5": 12_500_000, "00.10": 100_000,
	}
	for s, want := range good {
		if got, err := corpus.ParseMoney(s); err != nil || got != want {
			t.Errorf("ParseMoney(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", ".", "1.", ".5", "-1", "+1", "1e2", " 1", "1 ", "1,5", "0.0000001", "1.2.3", "0x1", "9999999999999", "١"} {
		if got, err := corpus.ParseMoney(s); err == nil {
			t.Errorf("ParseMoney(%q) = %d, want an error", s, got)
		}
	}
}

func TestPointer_EscapesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.StringMatching(`[a-z~/ {}0-1-]{0,6}`), 1, 5).Draw(t, "tokens")
		p := ""
		for _, k := range tokens {
			p += "/" + corpus.EscapeToken(k)
		}
		got, err := corpus.ParsePointer(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tokens, got); diff != "" {
			t.Fatal(diff)
		}
	})
	for _, p := range []string{"a", "/~", "/~2", "/a~"} {
		if _, err := corpus.ParsePointer(p); err == nil {
			t.Errorf("pointer %q was accepted", p)
		}
	}
}

func TestArgSchema_TellsEveryViolationInOrder(t *testing.T) {
	t.Parallel()
	c, err := corpus.Parse("shop/shop-one-01.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := c.Tool("set_price")
	tests := []struct{ args, want string }{
		{`{`, "the arguments are not valid JSON"},
		{`[1]`, "the arguments must be a JSON object"},
		{`{"item":"tea","item":"oil","cents":1}`, `key "item" twice in one object`},
		{`{"item":"tea","cents":1e400}`, "out of range"},
		{`{"item":7,"cents":"x"}`, "invalid arguments: cents: got string, want integer; item: got number, want string"},
		{`{"zz":1,"aa":2,"mm":3,"item":"tea"}`, "invalid arguments: arguments: additional properties 'aa', 'mm', 'zz' not allowed; arguments: missing property 'cents'"},
	}
	for _, tt := range tests {
		for range 20 { // the library walks maps: the text must not depend on it
			_, err := tool.Args().Check([]byte(tt.args))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Check(%s): got %v, want in it %q", tt.args, err, tt.want)
			}
		}
	}
}

func TestRoomSpec_CarriesNoCaseAndSharesNothing(t *testing.T) {
	t.Parallel()
	c, err := corpus.Parse("shop/shop-one-01.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	options := map[string]string{"reviewers": "1"}
	spec := c.RoomSpec(options)
	want := engine.RoomSpec{
		Goal: "Set the price.", Owner: "ana",
		Agents: []engine.Participant{
			{ID: "clerk", Agent: "agent-clerk", Role: "specialist", Description: "sets prices", Aliases: []string{"till"}, Tools: []string{"show", "set_price"}},
			{ID: "eye", Agent: "agent-eye", Role: "reviewer", Description: "checks prices", Tools: []string{"show"}},
		},
		Criteria: []engine.Criterion{{ID: "c-price", Text: "The price is right"}},
		Tools: []engine.ToolSpec{
			{Name: "set_price", Description: "Set a price", Action: "write", Target: []string{"item"}, Volatile: []string{"why"}, Schema: []byte(`{"additionalProperties":false,"properties":{"cents":{"type":"integer"},"item":{"type":"string"},"why":{"type":"string"}},"required":["item","cents"],"type":"object"}`)},
			{Name: "show", Description: "All prices", Action: "read", Schema: []byte(`{"additionalProperties":false,"properties":{},"type":"object"}`)},
		},
		Parallel: 2, Options: map[string]string{"reviewers": "1"},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
	spec.Agents[0].Tools[0] = "changed"
	spec.Tools[0].Schema[0] = 'x'
	options["reviewers"] = "2"
	if diff := cmp.Diff(want, c.RoomSpec(map[string]string{"reviewers": "1"})); diff != "" {
		t.Error("the specification shares memory with the case:", diff)
	}
	text, err := engine.Canonical(c.RoomSpec(nil))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), c.ID) || strings.Contains(string(text), c.Family) {
		t.Error("the room specification names the case")
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	c := &corpus.Corpus{Cases: []*corpus.Case{
		{ID: "a-1", Family: "a", Split: "dev"},
		{ID: "a-2", Family: "a", Split: "holdout"},
		{ID: "b-1", Family: "b", Split: "dev"},
	}}
	tests := []struct {
		split            string
		include, exclude []string
		want             string
		fails            string
	}{
		{"dev", nil, nil, "[a-1 b-1]", ""},
		{"", []string{"*"}, nil, "[a-1 a-2 b-1]", ""},
		{"", []string{"a"}, nil, "[a-1 a-2]", ""},
		{"", []string{"a/*", "b-1"}, []string{"*-2"}, "[a-1 b-1]", ""},
		{"holdout", []string{"a-1"}, nil, "", `matches no case of split "holdout"`},
		{"dev", []string{"["}, nil, "", "syntax error in pattern"},
		{"dev", nil, []string{"["}, "", "syntax error in pattern"},
	}
	for _, tt := range tests {
		got, err := c.Select(tt.split, tt.include, tt.exclude)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("Select(%v): error %v, want in it %q", tt, err, tt.fails)
			}
			continue
		}
		var ids []string
		for _, k := range got {
			ids = append(ids, k.ID)
		}
		if err != nil || fmt.Sprint(ids) != tt.want {
			t.Errorf("Select(%v) = %v, %v", tt, ids, err)
		}
	}
}

// A digest covers what a case says and not how it is written.
func TestDigest_IgnoresFormatAndLineEndings(t *testing.T) {
	t.Parallel()
	digest := func(text string) string {
		c, err := corpus.Parse("shop/shop-one-01.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(small)
	same := map[string]string{
		"CRLF":      strings.ReplaceAll(small, "\n", "\r\n"),
		"comment":   "# note\n" + small,
		"key order": strings.Replace(strings.Replace(small, "split: dev\n", "", 1), "id: shop-one-01\n", "split: dev\nid: shop-one-01\n", 1),
		"flow":      strings.Replace(small, "prices: {tea: {cents: 250}}", "prices:\n      tea:\n        cents: 250", 1),
		"number":    strings.Replace(small, "cents: 250", "cents: 250.0", 1),
	}
	for name, text := range same {
		if got := digest(text); got != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	for _, change := range [][2]string{{"cents: 250", "cents: 251"}, {"think_seconds: 20", "think_seconds: 21"}, {"call: 1", "call: 2"}} {
		if digest(strings.Replace(small, change[0], change[1], 1)) == want {
			t.Errorf("%v does not change the digest", change)
		}
	}
}

func TestBuiltin_DigestsAreStable(t *testing.T) {
	t.Parallel()
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, k := range c.Cases {
		d, err := k.Digest()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, k.ID, d)
	}
	for _, split := range []string{corpus.SplitDev, corpus.SplitHoldout} {
		d, err := c.SplitDigest(split)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, "split", split, d)
	}
	whole, err := c.Digest()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, "corpus", whole)
	golden := filepath.Join("testdata", "digests.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), b.String()); diff != "" {
		t.Errorf("a digest moved; if the cases were meant to change, run with -update\n%s", diff)
	}
}

func TestBuiltin_EmbedsNoGold(t *testing.T) {
	t.Parallel()
	n := 0
	err := fs.WalkDir(corpus.BuiltinFS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		if first, _, _ := strings.Cut(p, "/"); corpus.Reserved(first) {
			t.Errorf("package corpus embeds %s", p)
		}
		data, err := fs.ReadFile(corpus.BuiltinFS(), p)
		if err != nil {
			return err
		}
		if strings.Contains(string(data), "qualify/gold/") {
			t.Errorf("%s is a gold file", p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	onDisk, err := filepath.Glob("*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 || n != len(onDisk) {
		t.Errorf("%d files embedded, %d family files on disk", n, len(onDisk))
	}
}
