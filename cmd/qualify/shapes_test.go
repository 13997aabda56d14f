package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Keys that scripts and gates read, each with its JSON type; "*" stands for
// every element of an array, a type with "?" may be null.
const (
	runKeys = `
schema.name string; schema.version number; evidence string; campaign.id string; campaign.name string; campaign.registration string
status string; exit number; corpus.digest string; corpus.split string; corpus.families number; corpus.cases number
model string; prices string; seed number; trials number
budget.funds string; budget.limit_micros number; budget.charged_micros number; budget.held_micros number; budget.unknown_micros number
budget.max_sum_micros number; budget.holds bool; trace_set_digest string
arms.*.name string; arms.*.mode string
arms.*.denominators.planned number; arms.*.denominators.claimed_met number; arms.*.denominators.claimed_unmet number
arms.*.denominators.unclaimed_met number; arms.*.denominators.unclaimed_unmet number; arms.*.denominators.infrastructure number
arms.*.denominators.grader_error number; arms.*.denominators.not_run number; arms.*.termination object
arms.*.completion.rate number; arms.*.completion.se number?; arms.*.completion.cluster string; arms.*.completion.clusters number; arms.*.completion.n number
arms.*.false_completion.count number; arms.*.false_completion.rate number
arms.*.owner_corrections.count number; arms.*.owner_corrections.per_trial number
arms.*.duplicate_effects.confirmed number; arms.*.duplicate_effects.suppressed number; arms.*.duplicate_effects.unknown number
arms.*.collateral_effects.count number; arms.*.repeated_work.count number
arms.*.latency_us.p50 number; arms.*.latency_us.p95 number; arms.*.latency_us.p95_ci95 object?; arms.*.latency_us.n number; arms.*.latency_us.censored number; arms.*.latency_us.rule string
arms.*.cost_micros.charged number; arms.*.cost_micros.held number; arms.*.cost_micros.unknown number; arms.*.cost_micros.by_role object
arms.*.faults object; arms.*.not_evaluable array; ablations array
controls.*.name string; controls.*.completed number; oracle_faults array; dropped_triples array
peak.trials number; peak.calls number; store.commits number; outside_identity array`

	scoreKeys = `
schema.name string; schema.version number; tool string
files.*.path string; files.*.sha256 string; files.*.format string; files.*.arm string; files.*.effects string
arms.*.name string; arms.*.evidence string; arms.*.traces number; arms.*.cases number; arms.*.trials number
arms.*.completion.rate number; arms.*.completion.se number?; arms.*.completion.se_method string; arms.*.completion.cluster string
arms.*.completion.n number; arms.*.completion.clusters number; arms.*.completion.met number
arms.*.pass_hat.1 number; arms.*.pass_at.1 number; arms.*.pass_rule string; arms.*.tool_calls number; arms.*.tool_errors number
arms.*.writes.attempted number; arms.*.writes.confirmed number
arms.*.repeated_calls.count number; arms.*.repeated_calls.traces number; arms.*.repeated_work.count number; arms.*.repeated_work.traces number
arms.*.duplicate_effects.count number; arms.*.duplicate_effects.traces number; arms.*.collateral_effects.count number; arms.*.collateral_effects.traces number
arms.*.reused_call_ids.traces number; arms.*.unfinished number
arms.*.denominators.planned number; arms.*.denominators.met number; arms.*.denominators.unmet number; arms.*.denominators.infrastructure number
arms.*.denominators.grader_error number; arms.*.denominators.not_run number
arms.*.not_evaluable.*.metric string; arms.*.not_evaluable.*.reason string; warnings array`
)

// missing lists the keys that a document lacks or has with another type.
func missing(doc any, keys string) []string {
	var out []string
	for _, k := range strings.FieldsFunc(keys, func(r rune) bool { return r == ';' || r == '\n' }) {
		path, kind, _ := strings.Cut(strings.TrimSpace(k), " ")
		if path != "" {
			out = append(out, lacking(doc, strings.Split(path, "."), kind, "")...)
		}
	}
	return out
}

func lacking(v any, path []string, kind, at string) []string {
	if len(path) == 0 {
		got := ""
		switch v.(type) {
		case nil:
			if strings.HasSuffix(kind, "?") {
				return nil
			}
			got = "null"
		case string:
			got = "string"
		case float64:
			got = "number"
		case bool:
			got = "bool"
		case []any:
			got = "array"
		case map[string]any:
			got = "object"
		}
		if got != strings.TrimSuffix(kind, "?") {
			return []string{at + " is " + got + ", want " + kind}
		}
		return nil
	}
	switch n := v.(type) {
	case map[string]any:
		next, ok := n[path[0]]
		if !ok {
			return []string{at + "/" + path[0] + " is missing"}
		}
		return lacking(next, path[1:], kind, at+"/"+path[0])
	case []any:
		if path[0] != "*" || len(n) == 0 {
			return []string{at + " has no element"}
		}
		var out []string
		for i, x := range n {
			out = append(out, lacking(x, path[1:], kind, at+"/"+strconv.Itoa(i))...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s is %T, want %s below it", at, v, path[0])}
}

func jsonOf(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(t.Context(), append(args, "--json"), strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("%v: exit %d: %s", args, code, stderr.String())
	}
	dec := json.NewDecoder(strings.NewReader(stdout.String()))
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if dec.More() {
		t.Errorf("%v prints more than one document", args)
	}
	return doc
}

// TestRunJSON_KeysAndTypes: a real run's document has every key that scripts
// depend on, the roles add up to the cost and the denominators to what was planned.
func TestRunJSON_KeysAndTypes(t *testing.T) {
	t.Parallel()
	doc := jsonOf(t, "run", "builtin:demo", "--case", "ledger-*,errand-*", "--trials", "1", "--store", "sqlite:"+filepath.Join(t.TempDir(), "q.db"))
	for _, m := range missing(doc, runKeys) {
		t.Error(m)
	}
	arms, ok := doc["arms"].([]any)
	if !ok || len(arms) != 3 {
		t.Fatalf("%d arms", len(arms))
	}
	for _, a := range arms {
		arm, _ := a.(map[string]any)
		d, _ := arm["denominators"].(map[string]any)
		sum := 0.0
		for _, k := range []string{"claimed_met", "claimed_unmet", "unclaimed_met", "unclaimed_unmet", "infrastructure", "grader_error", "not_run"} {
			n, _ := d[k].(float64)
			sum += n
		}
		if sum != d["planned"] || sum != 4 {
			t.Errorf("%v: denominators %v add up to %v", arm["name"], d, sum)
		}
		cost, _ := arm["cost_micros"].(map[string]any)
		roles, _ := cost["by_role"].(map[string]any)
		charged := 0.0
		for _, v := range roles {
			n, _ := v.(float64)
			charged += n
		}
		if charged != cost["charged"] || charged == 0 {
			t.Errorf("%v: the roles add up to %v of %v", arm["name"], charged, cost["charged"])
		}
	}
	if missing(doc, "arms.*.nothing number") == nil || missing(doc, "evidence number") == nil {
		t.Error("the check of keys finds nothing")
	}
}

func TestScoreJSON_KeysAndTypes(t *testing.T) {
	t.Parallel()
	call := func(id, tool, args string) string {
		return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]}`, id, tool, args)
	}
	traj := call("c1", "get_reservation_details", `{"reservation_id":"R1"}`) + `,{"role":"tool","name":"get_reservation_details","tool_call_id":"c1","content":"{}"},` +
		call("c1", "cancel_reservation", `{"reservation_id":"R1"}`) + `,{"role":"tool","name":"cancel_reservation","tool_call_id":"c1","content":"Error: no"},{"role":"user","content":"###STOP###"}`
	info := `{"task":{"user_id":"u","actions":[{"name":"cancel_reservation","kwargs":{"reservation_id":"R1"}}],"instruction":"i","outputs":[]},"source":"s","user_cost":0.5,"reward_info":null}`
	path := filepath.Join(t.TempDir(), "some.trials.json")
	text := `[{"task_id":1,"trial":0,"reward":1,"info":` + info + `,"traj":[` + traj + `]},{"task_id":2,"trial":0,"reward":0,"info":` + info + `,"traj":[]}]`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := jsonOf(t, "score", path)
	for _, m := range missing(doc, scoreKeys) {
		t.Error(m)
	}
	arms, _ := doc["arms"].([]any)
	if arm, _ := arms[0].(map[string]any); len(arms) != 1 || arm["name"] != "some.trials" || arm["tool_calls"] != 2.0 || arm["tool_errors"] != 1.0 {
		t.Errorf("arms %v", arms)
	}
}
