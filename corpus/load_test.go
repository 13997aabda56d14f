package corpus_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
)

func TestParse_SmallCase(t *testing.T) {
	t.Parallel()
	c, err := corpus.Parse("shop/shop-one-01.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if c.Room.Limits.Budget != 80_000 {
		t.Errorf("budget %d micros, want 80000", c.Room.Limits.Budget)
	}
	if got := c.World.Documents["prices"].String(); got != `{"tea":{"cents":250}}` {
		t.Errorf("document %s", got)
	}
	tool, ok := c.Tool("set_price")
	if !ok {
		t.Fatal("tool set_price is missing")
	}
	if _, err := tool.Args().Check([]byte(`{"item":"tea","cents":300}`)); err != nil {
		t.Errorf("good arguments refused: %v", err)
	}
}

// Each fault of a case file is one line that names file and line.
func TestParse_FaultsNameFileAndLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, old, new, want string
	}{
		{"unknown field", "title: A small case", "titel: A small case", `:5: unknown field "titel"`},
		{"unknown nested field", "  goal: Set", "  gaol: Set", `:7: unknown field "gaol"`},
		{"fraction for a whole number", "think_seconds: 20", "think_seconds: 20.5", ":31: wrong type: 20.5 is no whole number"},
		{"exponent for a whole number", "think_seconds: 20", "think_seconds: 2e1", ":31: wrong type: 2e1 is no whole number"},
		{"alias", "title: A small case", "title: &t A small case\ntags: [*t]", ":6: aliases are not read here"},
		{"merge key", "split: dev", "<<: {split: dev}", ":4: merge keys are not read here"},
		{"tag", "title: A small case", "title: !!binary QQ==", ":5: the tag !!binary is not read here"},
		{"list entry without value", "tools: [show]}", "tools: [show, ~]}", ":11: a list entry without a value"},
		{"wrong type", "think_seconds: 20", "think_seconds: soon", ":31: wrong type: str `soon`"},
		{"repeated key", "split: dev", "split: dev\nsplit: dev", `mapping key "split" already defined at line 4`},
		{"schema", "qualify/case/v1", "qualify/case/v2", `:1: schema "qualify/case/v2" must be qualify/case/v1`},
		{"family differs from folder", "family: shop", "family: shoe", `:3: family "shoe" differs from the folder "shop"`},
		{"reserved family", "family: shop", "family: gold", `:3: family "gold" is a reserved name`},
		{"id differs from file", "id: shop-one-01", "id: shop-two-01", `:2: id "shop-two-01" differs from the file name "shop-one-01"`},
		{"split", "split: dev", "split: test", `:4: split "test" must be one of dev, holdout`},
		{"money as a number", `budget_usd: "0.08"`, "budget_usd: 0.08", ":14: money must be a quoted decimal string"},
		{"money with seven places", `"0.08"`, `"0.0800001"`, `:14: money "0.0800001" has more than six places`},
		{"negative money", `"0.08"`, `"-1"`, `:14: money "-1" is no decimal number`},
		{"no money", `"0.08"`, `"0"`, ":14: budget_usd in micros must be at least 1"},
		{"money that no sum holds", `"0.08"`, `"999999999999"`, ":14: budget_usd in micros must be at most 1000000000000"},
		{"minutes that no clock holds", "minutes: 60", "minutes: 9223372036854775807", ":14: minutes must be at most 527040"},
		{"calls without end", "model_calls: 40", "model_calls: 1000001", ":14: model_calls must be at most 1000000"},
		{"a trigger after centuries", "after: claim", "after: time, seconds: 9223372036854775807", ":34: seconds must be at most 31622400"},
		{"an owner who thinks for centuries", "think_seconds: 20", "think_seconds: 9223372036854775807", ":31: think_seconds must be at most 31622400"},
		{"unknown tool of an agent", "tools: [show]}", "tools: [shew]}", `:11: agent eye names unknown tool "shew"`},
		{"alias of two agents", "aliases: [till]", "aliases: [Eye]", `:11: alias "eye" of eye is also a name of clerk`},
		{"repeated participant", "{id: eye,", "{id: clerk,", `:11: participant id "clerk" is already used at shop/shop-one-01.yaml:10`},
		{"role", "role: reviewer", "role: boss", `:11: role "boss" must be one of specialist, reviewer`},
		{"read that writes", "    action: write", "    action: read", `:25: operation update does not go with action read`},
		{"open params", "params: {type: object, additionalProperties: false, properties: {}}", "params: {type: object}", ":22: tool show: params must say additionalProperties: false"},
		{"bad schema", "item: {type: string}", "item: {type: strong}", ":27: tool set_price: params:"},
		{"unknown placeholder", "{cents: \"{cents}\"", "{cents: \"{sents}\"", ":28: placeholder {sents} names no parameter"},
		{"optional placeholder in a path", "/prices/{item}", "/prices/{why}", ":28: placeholder {why} names an optional parameter"},
		{"unknown document", "from: /prices", "from: /costs", `:23: pointer "/costs" names unknown document "costs"`},
		{"field of another operation", "from: /prices}", "from: /prices, exists: error}", ":23: operation query has no exists"},
		{"missing field of the operation", "op: {kind: query, from: /prices}", "op: {kind: query}", ":23: operation query needs from"},
		{"target is no parameter", "target: [item]", "target: [thing]", `:29: target "thing" of tool set_price is no required parameter`},
		{"unknown trigger", "after: claim", "after: lunch", `:34: after "lunch" must be one of claim, message, time`},
		{"condition without value", ", is_not: 300}", "}", ":34: a document condition needs one of is and is_not"},
		{"correction that is none", "type: correction", "type: request", `:34: correction type "request" must be one of`},
		{"no patience", "patience: 2", "patience: 0", ":35: patience must be at least 1"},
		{"fault on unknown tool", "tool: set_price, target", "tool: unset, target", `:37: fault names unknown tool "unset"`},
		{"fault target without identity", "tool: set_price, target: tea, call: 1, kind: ack_lost_after_commit", "tool: show, target: tea, call: 1, kind: slow", `:37: tool show declares no identity.target`},
		{"lost acknowledgement of a read", "tool: set_price, target: tea", "tool: show", ":37: ack_lost_after_commit needs a tool with an effect; show reads"},
		{"two faults on one call", "kind: ack_lost_after_commit}", "kind: ack_lost_after_commit}\n  - {id: f2, tool: set_price, target: tea, call: 1, kind: slow}", `:38: a fault's place, f2 at "call 1 of set_price on tea" is already used at shop/shop-one-01.yaml:37`},
		{"tagged key", "split: dev", "!!str split: dev", ":4: the tag !!str is not read here"},
		{"syntax, parser", "split: dev", "split: [dev", ":4: did not find expected"},
		{"syntax, scanner", "split: dev", "split: a: b", ":4: mapping values are not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(small, tt.old, tt.new, 1)
			if text == small {
				t.Fatalf("the case does not contain %q", tt.old)
			}
			_, err := corpus.Parse("shop/shop-one-01.yaml", []byte(text))
			var list corpus.Errors
			if !errors.As(err, &list) {
				t.Fatalf("error %v is no corpus.Errors", err)
			}
			for _, e := range list {
				if strings.Contains(e.Error(), "\n") || !strings.HasPrefix(e.Error(), "shop/shop-one-01.yaml:") {
					t.Errorf("not one line with its place: %q", e.Error())
				}
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got:\n%v\nwant in it: %s", err, tt.want)
			}
		})
	}
}

func TestParse_GathersEveryFault(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("split: dev", "split: test", "role: reviewer", "role: boss", "patience: 2", "patience: 0").Replace(small)
	_, err := corpus.Parse("shop/shop-one-01.yaml", []byte(text))
	var list corpus.Errors
	if !errors.As(err, &list) {
		t.Fatalf("error %v is no corpus.Errors", err)
	}
	var lines []int
	for _, e := range list {
		lines = append(lines, e.Line)
	}
	if diff := cmp.Diff([]int{4, 11, 35}, lines); diff != "" {
		t.Error(diff, err)
	}
}

func TestF14_DuplicateCaseIDsNameBothPlaces(t *testing.T) {
	t.Parallel()
	other := strings.Replace(small, "family: shop", "family: stall", 1)
	_, err := corpus.Load(fstest.MapFS{
		"shop/shop-one-01.yaml":  {Data: []byte(small)},
		"stall/shop-one-01.yaml": {Data: []byte("# a comment moves the line\n" + other)},
	})
	want := `stall/shop-one-01.yaml:3: case id "shop-one-01" is already used at shop/shop-one-01.yaml:2`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestLoad_PassesOverReservedFolders(t *testing.T) {
	t.Parallel()
	c, err := corpus.Load(fstest.MapFS{
		"shop/shop-one-01.yaml":      {Data: []byte(small)},
		"gold/shop/shop-one-01.yaml": {Data: []byte("not a case")},
		"gold/x.yaml":                {Data: []byte("not a case")},
		"world/y.yaml":               {Data: []byte("not a case")},
		"doc.go":                     {Data: []byte("package corpus")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Cases) != 1 {
		t.Errorf("%d cases, want 1", len(c.Cases))
	}
}

// A pipe or device in place of a case is refused, not read: reading it might
// never end.
func TestLoad_RefusesWhatIsNoRegularFile(t *testing.T) {
	t.Parallel()
	_, err := corpus.Load(fstest.MapFS{"shop/shop-one-01.yaml": {Mode: fs.ModeNamedPipe}})
	if err == nil || err.Error() != "shop/shop-one-01.yaml: is no regular file" {
		t.Errorf("got %v", err)
	}
}

func TestLoad_RefusesStrayAndEmpty(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, data, want string
	}{
		{"wrong suffix", "shop/shop-one-01.yml", small, "shop/shop-one-01.yml: a family folder holds <case>.yaml files only"},
		{"empty file", "shop/shop-one-01.yaml", "", "shop/shop-one-01.yaml: the file is empty"},
		{"only a comment", "shop/shop-one-01.yaml", "# nothing\n", "shop/shop-one-01.yaml: the file is empty"},
		{"a list", "shop/shop-one-01.yaml", "[1, 2]", "shop/shop-one-01.yaml:1: the file must be a mapping"},
		{"two documents", "shop/shop-one-01.yaml", small + "---\nid: x\n", "the file holds more than one document"},
		{"no case", "README.md", "x", "no case found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := corpus.Load(fstest.MapFS{tt.file: {Data: []byte(tt.data)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant in it: %s", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("schema: qualify/case/v1\nworld: {documents: {a: 1e400}}"))
	f.Add([]byte("a: &x [*x]"))
	f.Add([]byte("tools: [{op: {at: '/{'}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := corpus.Parse("shop/shop-one-01.yaml", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("case %v, error %v", c, err)
		}
		if err == nil {
			if _, err := c.Digest(); err != nil {
				t.Fatalf("a case without digest: %v", err)
			}
		}
	})
}
