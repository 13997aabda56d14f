package campaigns

import (
	"strings"
	"testing"
)

func demoText(t *testing.T) string {
	t.Helper()
	b, ok := Builtin("demo")
	if !ok {
		t.Fatal("no built-in demo")
	}
	return string(b)
}

func TestBuiltinCampaignsParse(t *testing.T) {
	t.Parallel()
	for _, name := range BuiltinNames() {
		b, ok := Builtin(name)
		if !ok {
			t.Fatalf("%s is listed and not there", name)
		}
		if _, err := ParseFile(name, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := Builtin("../demo"); ok {
		t.Error("a name with a slash was looked up")
	}
}

// Each fault is one line with file, line and what is wrong.
func TestFileFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, now, want string }{
		{"unknown field", "seed: 7", "sead: 7", `c.yaml:3: unknown field "sead"`},
		{"trials 0", "trials: 5", "trials: 0", "c.yaml:6: trials: is 0"},
		{"negative trials", "trials: 5", "trials: -1", "c.yaml:6: trials: is -1"},
		{"negative ceiling", `ceiling_usd: "50.00"`, `ceiling_usd: "-1"`, "c.yaml:31: ceiling_usd: "},
		{"seven decimals", `ceiling_usd: "50.00"`, `ceiling_usd: "1.0000001"`, "c.yaml:31: ceiling_usd: "},
		{"no ceiling", `ceiling_usd: "50.00"`, "", "ceiling_usd: is missing"},
		{"zero ceiling", `ceiling_usd: "50.00"`, `ceiling_usd: "0"`, "ceiling_usd: is 0"},
		{"wrong schema", "campaign/v1", "campaign/v9", "c.yaml:1: schema: "},
		{"arm twice", "name: selective,", "name: legacy,", `c.yaml:9: arms.1.name: "legacy" is also the name of arm 0 (line 8)`},
		{"reserved arm", "name: selective,", "name: control-x,", `the prefix "control-" is reserved`},
		{"idempotency", "idempotency: off", "idempotency: maybe", "c.yaml:8: arms.0.idempotency: is \"maybe\""},
		{"under test", "under_test: [mode,", "under_test: [model,", `c.yaml:12: under_test.0: "model" is nothing`},
		{"rate above one", `skip_step: "0.10"`, `skip_step: "1.5"`, "c.yaml:18: model.simulated.skip_step: is \"1.5\""},
		{"rate missing", `    skip_step: "0.10"`, "", "model.simulated.skip_step: is missing"},
		{"price of another model", "  sim-1: {", "  sim-2: {", `prices: has no entry for model "sim-1"`},
		{"no bound on output", ", max_output_tokens: 800", "", "max_output_tokens is missing"},
		{"clock", "clock: virtual", "clock: sun", "c.yaml:30: clock: is \"sun\""},
		{"only ablations", "role: ablation", "role: abl", "c.yaml:11: arms.3.role: is \"abl\""},
		{"fraction of a trial", "trials: 5", "trials: 5.5", "c.yaml:6: wrong type: 5.5 is no whole number"},
		{"freeze of no path", "seed: 7", "seed: 7\nfreeze:\n  include: [src, ../other]", `c.yaml:5: freeze.include.1: "../other" is no path inside the root`},
		{"freeze of an absolute path", "seed: 7", "seed: 7\nfreeze: {include: [/src]}", `c.yaml:4: freeze.include.0: "/src" is no path inside the root`},
		{"freeze of nothing", "seed: 7", `seed: 7
freeze: {include: [""]}`, `c.yaml:4: freeze.include.0: "" is no path`},
		{"freeze without an open class", "seed: 7", "seed: 7\nfreeze: {include: [src], exclude: ['*.tmp', 'a[b']}", `c.yaml:4: freeze.exclude.1: "a[b" is no pattern of file names; a '[' begins`},
		{"seed with an exponent", "seed: 7", "seed: 1e2", "c.yaml:3: wrong type: 1e2 is no whole number"},
		{"negative seed", "seed: 7", "seed: -7", "c.yaml:3: wrong type: int `-7`"},
		{"seed that JSON rounds", "seed: 7", "seed: 9223372036854775808", "c.yaml:3: seed: is 9223372036854775808; use 0 to 9223372036854775807"},
		{"arm without a value", "  - {name: planner,", "  - ~\n  - {name: planner,", "c.yaml:10: a list entry without a value"},
		{"alias", "name: sim-1", "name: &m sim-1\n  provider: *m", "c.yaml:16: aliases are not read here"},
		{"merge key", "params: {", "params: {<<: {a: b}, ", "c.yaml:16: merge keys are not read here"},
		{"latency of centuries", "p95: 6000", "p95: 9223372036854775807", "c.yaml:27: model.simulated.latency_ms: needs 1 <= median <= p95 <= 86400000"},
		{"infrastructure fault", "infrastructure_faults: []", "infrastructure_faults: [dns]", `c.yaml:33: infrastructure_faults.0: "dns" is unknown`},
		{"not a mapping", "schema: qualify/campaign/v1", "- x", "c.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := demoText(t)
			if !strings.Contains(text, tt.old) {
				t.Fatalf("the demo has no %q", tt.old)
			}
			_, err := ParseFile("c.yaml", []byte(strings.Replace(text, tt.old, tt.now, 1)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v\nwant one with %q", err, tt.want)
			}
		})
	}
	for name, data := range map[string]string{"empty": "", "blank": " \n", "comment": "# nothing\n"} {
		if _, err := ParseFile("c.yaml", []byte(data)); err == nil || !strings.Contains(err.Error(), "c.yaml: the file is empty") {
			t.Errorf("%s file: %v", name, err)
		}
	}
}
