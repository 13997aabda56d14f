package evaluator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const profileText = `schema: qualify/effects/v1
name: mine
match: {telling: [fire], shared: [think, stop]}
error_result: {prefix: "ERR"}
writes:
  fire: {target: [id], volatile: [note]}
ends: {tools: [stop], user_text: "BYE"}
user_cost: {unit: usd}
`

func TestProfile_BuiltInsAreValidAndDistinct(t *testing.T) {
	t.Parallel()
	all, err := BuiltinProfiles()
	if err != nil {
		t.Fatal(err)
	}
	telling := map[string]string{}
	for _, p := range all {
		for _, tool := range p.Match.Telling {
			if other := telling[tool]; other != "" {
				t.Errorf("%s tells both %s and %s", tool, other, p.Name)
			}
			telling[tool] = p.Name
		}
	}
	if len(all) < 2 {
		t.Errorf("built in: %d", len(all))
	}
}

func TestProfile_StrictWithFileAndLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "p.yaml: empty effect profile",
		profileText + "---\na: 1\n": "p.yaml: more than one YAML document",
		strings.Replace(profileText, "name: mine", "nane: mine", 1):       "p.yaml:2: field nane not found",
		strings.Replace(profileText, "[id]", "7", 1):                      "p.yaml:6: cannot unmarshal",
		strings.Replace(profileText, "effects/v1", "effects/v2", 1):       "p.yaml: schema",
		strings.Replace(profileText, "name: mine", "name: none", 1):       "p.yaml: name",
		strings.Replace(profileText, "[fire]", "[]", 1):                   "p.yaml: match.telling is empty",
		strings.Replace(profileText, "[think, stop]", "[think, fire]", 1): "listed twice",
		strings.Replace(profileText, "\"ERR\"", "\"\"", 1):                "error_result.prefix is empty",
		strings.Replace(profileText, "  fire: {", "  fly: {", 1):          `write tool "fly"`,
		strings.Replace(profileText, "tools: [stop]", "tools: [go]", 1):   `ending tool "go"`,
		strings.Replace(profileText, "unit: usd", "unit: eur", 1):         "user_cost.unit",
	} {
		_, err := ParseProfile("p.yaml", []byte(in))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestLoadEffects(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(profileText), 0o600); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{"": "", "auto": "", "none": "", "tau-retail": "tau-retail", path: "mine"} {
		e, err := LoadEffects(spec)
		got := ""
		if e.Profile != nil {
			got = e.Profile.Name
		}
		if err != nil || got != want || e.None != (spec == "none") {
			t.Errorf("%q: %+v %v", spec, e, err)
		}
	}
	if _, err := LoadEffects("tau-banking"); err == nil || !strings.Contains(err.Error(), "tau-airline, tau-retail") {
		t.Errorf("unknown profile: %v", err)
	}
}

// TestProfile_VolatileArgumentsAndMoney: volatile arguments do not make another
// effect, and user cost is money only where the profile says so.
func TestProfile_VolatileArgumentsAndMoney(t *testing.T) {
	t.Parallel()
	p, err := ParseProfile("p.yaml", []byte(profileText))
	if err != nil {
		t.Fatal(err)
	}
	a := object{"name": "fire", "kwargs": object{"id": 1, "note": "plan"}}
	one := oneTask(1, 0, 1, []any{a}, `fire {"id":1,"note":"x"}`, "ok", `fire {"id":1.0,"note":"y"}`, "ok", `fire {"id":2,"note":"y"}`, "ERR")
	two := oneTask(2, 0, 1, []any{a}, `stop {}`, "done")
	two["info"] = object{"user_cost": 0.5}
	arm := score(t, "x.json", encode(t, []object{one, two}), ScoreOptions{Effects: Effects{Profile: p}}).Arms[0]
	if arm.DuplicateEffects.Count != 1 || arm.Collateral.Count != 0 || *arm.ToolErrors != 1 || *arm.Unfinished != 1 || arm.RepeatedCalls.Count != 0 {
		t.Errorf("%+v", arm)
	}
	if u := arm.UserCost; u == nil || u.N != 1 || u.Missing != 1 || u.Sum.String() != "0.5" {
		t.Errorf("user cost %+v", u)
	}
	// Without ground truth a trace that wrote cannot be judged; one that did not can.
	one["info"] = object{}
	arm = score(t, "x.json", encode(t, []object{one, two}), ScoreOptions{Effects: Effects{Profile: p}}).Arms[0]
	if arm.DuplicateEffects != nil || arm.Collateral != nil || arm.Writes.Confirmed != 2 {
		t.Errorf("effects judged without ground truth: %+v", arm)
	}
}
