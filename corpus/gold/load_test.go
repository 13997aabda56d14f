package gold_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

const small = `schema: qualify/gold/v1
case: shop-one-01
criteria:
  - {id: c-price, required: true, check: {document: /prices/tea/cents, equals: 300}}
  - {id: c-nice, required: false, check: {judge: {rubric: "Is it polite?"}}}
expected_effects:
  - {tool: set_price, args: {item: tea, cents: 300}}
solution:
  - {step: s1, by: clerk, call: show}
  - {step: s2, by: clerk, call: set_price, args: {item: tea, cents: 300}, after: [s1], meets: [c-price], until: m2}
  - {step: s3, by: clerk, say: Done., artifact: {name: slip, text: Tea 300}, after: [s2], report: true, since: m2}
`

func TestParse_SmallGold(t *testing.T) {
	t.Parallel()
	g, err := gold.Parse("shop/shop-one-01.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if !g.NeedsPlan || g.Expected[0].Times != 1 || g.Solution[0].Args.String() != "{}" {
		t.Errorf("defaults: needs_plan %v, times %d, args %s", g.NeedsPlan, g.Expected[0].Times, g.Solution[0].Args)
	}
	if got, want := g.Where("solution", 1), "shop/shop-one-01.yaml:10"; got != want {
		t.Errorf("Where = %s, want %s", got, want)
	}
	ids := func(said map[string]bool) []string {
		var out []string
		for _, s := range g.InForce(said) {
			out = append(out, s.ID)
		}
		return out
	}
	if diff := cmp.Diff([]string{"s1", "s2"}, ids(nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"s1", "s3"}, ids(map[string]bool{"m2": true})); diff != "" {
		t.Error(diff)
	}
}

func TestParse_FaultsNameFileAndLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, old, new, want string }{
		{"unknown field", "required: true", "requird: true", `:4: unknown field "requird"`},
		{"required not said", "required: true, ", "", `:4: criterion "c-price" does not say required`},
		{"case differs", "case: shop-one-01", "case: shop-two-01", `:2: case "shop-two-01" differs from the file name`},
		{"schema", "gold/v1", "gold/v9", ":1: schema"},
		{"repeated criterion", "id: c-nice", "id: c-price", `:5: criterion id "c-price" is already used at shop/shop-one-01.yaml:4`},
		{"repeated step", "step: s2", "step: s1", `:10: step "s1" is already used at shop/shop-one-01.yaml:9`},
		{"required judge", "required: false", "required: true", `:5: criterion "c-nice" is required and so must not be left to a judge`},
		{"two kinds", "equals: 300}", "equals: 300, no_other_effects: true}", ":4: a check needs exactly one kind, not 2"},
		{"no kind", "{document: /prices/tea/cents, equals: 300}", "{}", ":4: a check needs exactly one kind, not 0"},
		{"empty all", "{document: /prices/tea/cents, equals: 300}", "{all: []}", ":4: all holds no check"},
		{"document without value", ", equals: 300}}", "}}", ":4: a document check needs exactly one of"},
		{"value without document", "document: /prices/tea/cents, equals: 300", "effect: {tool: set_price}, equals: 300", ":4: equals, is_not, contains and is need a document"},
		{"bad pointer", "/prices/tea/cents", "prices", `:4: "prices" is no pointer into a document`},
		{"any message", "document: /prices/tea/cents, equals: 300", "message: {via: room}", ":4: a message check needs to or contains_all"},
		{"step does nothing", "call: show}", "meets: [c-price]}", `:9: step "s1" needs either call or say and artifact`},
		{"step does both", "call: show}", "call: show, say: Hm.}", `:9: step "s1" needs either call or say and artifact`},
		{"after a later step", "after: [s1]", "after: [s3]", `:10: step "s2" comes after "s3", which is no earlier step`},
		{"unknown criterion", "meets: [c-price]", "meets: [c-cost]", `:10: step "s2" meets unknown criterion "c-cost"`},
		{"free and fixed", "cents: 300}}\nsolution", "cents: 300}, free: [item, cents]}\nsolution", `:7: argument "cents" cannot be free and have a value in args`},
		{"times", "cents: 300}}\nsolution", "cents: 300}, times: 0}\nsolution", ":7: times must be at least 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(small, tt.old, tt.new, 1)
			if text == small {
				t.Fatalf("the file does not contain %q", tt.old)
			}
			_, err := gold.Parse("shop/shop-one-01.yaml", []byte(text))
			var list corpus.Errors
			if !errors.As(err, &list) || !strings.Contains(err.Error(), "shop/shop-one-01.yaml"+tt.want) {
				t.Errorf("got:\n%v\nwant in it: %s", err, tt.want)
			}
		})
	}
}

func TestF14_DuplicateGoldNamesBothPlaces(t *testing.T) {
	t.Parallel()
	_, err := gold.Load(fstest.MapFS{
		"shop/shop-one-01.yaml":  {Data: []byte(small)},
		"stall/shop-one-01.yaml": {Data: []byte("# moved\n" + small)},
	})
	want := `stall/shop-one-01.yaml:3: gold of case "shop-one-01" is already given at shop/shop-one-01.yaml:2`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestSet_GetAndBeside(t *testing.T) {
	t.Parallel()
	set, err := gold.LoadBeside(fstest.MapFS{"gold/shop/shop-one-01.yaml": {Data: []byte(small)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := set.Get("shop-one-01"); !ok || len(set.All()) != 1 {
		t.Error("the gold file is not found")
	}
	if _, ok := set.Get("shop-none"); ok {
		t.Error("gold of a case without gold")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("criteria: [{check: {not: {not: {all: []}}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := gold.Parse("shop/shop-one-01.yaml", data)
		if (g == nil) == (err == nil) {
			t.Fatalf("gold %v, error %v", g, err)
		}
		if err == nil {
			gold.Evaluate(g, gold.Outcome{})
		}
	})
}
