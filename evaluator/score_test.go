package evaluator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/evaluator/trace"
)

var airlineWrites = []string{"book_reservation", "cancel_reservation", "update_reservation_flights", "update_reservation_baggages", "update_reservation_passengers", "send_certificate"}

var approx = cmpopts.EquateApprox(0, 1e-9)

func score(t *testing.T, path string, data []byte, o ScoreOptions) *ScoreDocument {
	t.Helper()
	f, err := trace.Import(path, data, trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ScoreRecorded([]*trace.File{f}, o)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestQ1_TauBenchAirlineFigures: the published figures of the airline file.
func TestQ1_TauBenchAirlineFigures(t *testing.T) {
	t.Parallel()
	f, err := trace.ImportFile(sharedFile(t, airlineFile), trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ScoreRecorded([]*trace.File{f}, ScoreOptions{Tool: "qualify test"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(doc.Arms[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"gpt-4o-airline.trials-0-1","evidence":"recorded","traces":100,"cases":50,"trials":2,
		"completion":{"rate":0.43,"se":0.055346773,"se_method":"CR1","cluster":"case","n":100,"clusters":50,"met":43},
		"pass_hat":{"1":0.43,"2":0.24},"pass_at":{"1":0.43,"2":0.62},"pass_rule":"n = trials per case (equal)",
		"tool_calls":572,"tool_errors":33,"writes":{"attempted":121,"confirmed":88},
		"repeated_calls":{"count":17,"traces":9},"repeated_work":{"count":10,"traces":6},
		"duplicate_effects":{"count":0,"traces":0},"collateral_effects":{"count":42,"traces":36},
		"reused_call_ids":{"traces":24},"unfinished":2,
		"denominators":{"planned":100,"met":43,"unmet":57,"infrastructure":0,"grader_error":0,"not_run":0},
		"not_evaluable":[{"metric":"cost","reason":"the format records no agent usage"},{"metric":"latency","reason":"no timestamps"},
		{"metric":"owner_corrections","reason":"user turns are not typed"},{"metric":"false_completion","reason":"no claim is recorded"}]}`
	var got, exp map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &exp); err != nil {
		t.Fatal(err)
	}
	for k := range got {
		if _, stated := exp[k]; !stated {
			delete(got, k) // further keys may be added
		}
	}
	if diff := cmp.Diff(exp, got); diff != "" {
		t.Error(diff)
	}
	if doc.Files[0].SHA256 != "1580dca64d5324aa69314e414d7f04e30ce8b1c226579dff35aa21d146d5204e" || doc.Files[0].Effects != "tau-airline" || doc.Files[0].Format != "tau-bench" {
		t.Errorf("file %+v", doc.Files[0])
	}
}

func TestQ1_TauBenchRetailFigures(t *testing.T) {
	t.Parallel()
	f, err := trace.ImportFile(sharedFile(t, retailFile), trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ScoreRecorded([]*trace.File{f}, ScoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := doc.Arms[0]
	if a.Trials != 1 || a.Completion.Rate.String() != "0.73" || a.Unfinished == nil || *a.Unfinished != 1 || doc.Files[0].Effects != "tau-retail" {
		t.Errorf("retail: %+v", a)
	}
	if a.UserCost != nil {
		t.Error("token counts of a fork taken for money")
	}
}

// synthetic makes a tau-bench file of its own: tasks 0…cases-1, two trials
// each, with errors, repeats, reused ids, unanswered calls and collateral
// effects drawn from seed.
func synthetic(seed uint64, cases int) []object {
	rng := rand.New(rand.NewPCG(seed, 7))
	var file []object
	for task := range cases {
		truth := []any{
			object{"name": "get_user_details", "kwargs": object{"user_id": fmt.Sprint("u", task)}},
			object{"name": "cancel_reservation", "kwargs": object{"reservation_id": fmt.Sprint("R", task)}},
		}
		if task%3 == 0 {
			cert := object{"name": "send_certificate", "kwargs": object{"user_id": fmt.Sprint("u", task), "amount": 100.0}}
			truth = append(truth, cert, cert)
		}
		for trial := range 2 {
			traj := []any{object{"role": "system", "content": "rules"}, object{"role": "user", "content": "hello"}}
			for step := range 2 + rng.IntN(6) {
				n := 1 + rng.IntN(2)
				var calls, results []any
				for i := range n {
					act, _ := truth[rng.IntN(len(truth))].(object)
					args := normal(act["kwargs"])
					if rng.IntN(4) == 0 {
						args = strings.ReplaceAll(args, "100", "100.0")
					}
					if rng.IntN(9) == 0 {
						args = `{"reservation_id": "other"}`
					}
					calls = append(calls, object{"id": fmt.Sprint("c", step/2, i), "type": "function", "function": object{"name": act["name"], "arguments": args}})
					var content any = "done"
					switch rng.IntN(6) {
					case 0:
						content = "Error: no"
					case 1:
						content = nil
					}
					if rng.IntN(12) > 0 {
						results = append(results, object{"role": "tool", "name": act["name"], "tool_call_id": fmt.Sprint("c", step/2, i), "content": content})
					}
				}
				traj = append(traj, object{"role": "assistant", "content": nil, "tool_calls": calls})
				traj = append(traj, results...)
			}
			if rng.IntN(5) > 0 {
				traj = append(traj, object{"role": "assistant", "content": "bye"}, object{"role": "user", "content": "###STOP###"})
			}
			file = append(file, object{
				"task_id": task, "trial": trial, "reward": []float64{0, 1, .5, 1 - 5e-7}[rng.IntN(4)], "traj": traj,
				"info": object{"task": object{"actions": truth}, "user_cost": 0.25},
			})
		}
	}
	return file
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mutations change a file in one way each. They work on decoded JSON and
// report whether they found something to change.
var mutations = map[string]func(file []object) ([]object, bool){
	"unchanged": func(f []object) ([]object, bool) { return f, true },
	"a reward flipped": func(f []object) ([]object, bool) {
		r, _ := f[3]["reward"].(float64)
		f[3]["reward"] = 1.0
		if r > .9 {
			f[3]["reward"] = 0.0
		}
		return f, true
	},
	"a call and its result removed": func(f []object) ([]object, bool) {
		return f, eachTrace(f, func(traj []any) ([]any, bool) {
			for i := 0; i+1 < len(traj); i++ {
				m, _ := traj[i].(object)
				next, _ := traj[i+1].(object)
				if len(list(m["tool_calls"])) == 1 && next["role"] == "tool" {
					return append(append([]any{}, traj[:i]...), traj[i+2:]...), true
				}
			}
			return traj, false
		})
	},
	"the result of a confirmed write removed": func(f []object) ([]object, bool) {
		return f, eachTrace(f, func(traj []any) ([]any, bool) {
			for i := range traj {
				m, _ := traj[i].(object)
				if m["role"] == "tool" && slices.Contains(airlineWrites, text(m["name"])) && !strings.HasPrefix(text(m["content"]), "Error:") {
					return append(append([]any{}, traj[:i]...), traj[i+1:]...), true
				}
			}
			return traj, false
		})
	},
	"ids shuffled": func(f []object) ([]object, bool) {
		rng, found := rand.New(rand.NewPCG(1, 2)), false
		for _, r := range f {
			for _, m := range list(r["traj"]) {
				msg, _ := m.(object)
				for _, c := range list(msg["tool_calls"]) {
					o, _ := c.(object)
					o["id"], found = fmt.Sprint("x", rng.IntN(3)), true
				}
			}
		}
		return f, found
	},
	"records reordered": func(f []object) ([]object, bool) {
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
		return f, true
	},
	"a confirmed write repeated": func(f []object) ([]object, bool) {
		return f, eachTrace(f, func(traj []any) ([]any, bool) {
			for i := 0; i+1 < len(traj); i++ {
				m, _ := traj[i].(object)
				next, _ := traj[i+1].(object)
				calls := list(m["tool_calls"])
				if len(calls) != 1 || next["role"] != "tool" || strings.HasPrefix(text(next["content"]), "Error:") {
					continue
				}
				o, _ := calls[0].(object)
				fn, _ := o["function"].(object)
				for _, w := range airlineWrites {
					if fn["name"] == w {
						pair := []any{traj[i], traj[i+1]}
						return append(append(append([]any{}, traj[:i+2]...), pair...), traj[i+2:]...), true
					}
				}
			}
			return traj, false
		})
	},
	"an exception": func(f []object) ([]object, bool) {
		f[0]["info"] = object{"error": "boom\nat", "traceback": "..."}
		f[0]["traj"], f[0]["reward"] = []any{}, 0.0
		return f, true
	},
}

func eachTrace(f []object, edit func([]any) ([]any, bool)) bool {
	for _, r := range f {
		if traj, ok := edit(list(r["traj"])); ok {
			r["traj"] = traj
			return true
		}
	}
	return false
}

// checkMutations scores copies of a file, each changed in one way, against a
// computation that shares no code.
func checkMutations(t *testing.T, data []byte) {
	t.Helper()
	base := naive(data, airlineWrites, []string{"transfer_to_human_agents"})
	for _, name := range sortedKeys(mutations) {
		var file []object
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		file, found := mutations[name](file)
		if !found {
			t.Fatalf("%s: nothing to change", name)
		}
		changed := encode(t, file)
		want := naive(changed, airlineWrites, []string{"transfer_to_human_agents"})
		got := figures(score(t, "a.json", changed, ScoreOptions{}).Arms[0])
		if diff := cmp.Diff(want, got, approx); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		same := cmp.Equal(base, want, approx)
		if keeps := name == "unchanged" || name == "records reordered"; same != keeps {
			t.Errorf("%s: figures equal to the original's: %v", name, same)
		}
		if name == "ids shuffled" {
			want.Reused = base.Reused
			if diff := cmp.Diff(base, want, approx); diff != "" {
				t.Errorf("shuffled ids changed more than reused ids:\n%s", diff)
			}
		}
		if name == "a confirmed write repeated" && want.Dup != base.Dup+1 {
			t.Errorf("a repeated write: %d duplicates, had %d", want.Dup, base.Dup)
		}
	}
}

func TestQ1_MutatedSyntheticCopiesAgreeWithNaiveComputation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		checkMutations(t, encode(t, synthetic(seed+1, 12)))
	}
}

// TestQ1_MutatedCopiesAgreeWithNaiveComputation does so with the public
// airline file: whole as it is, and its first 30 records mutated.
func TestQ1_MutatedCopiesAgreeWithNaiveComputation(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(sharedFile(t, airlineFile))
	if err != nil {
		t.Fatal(err)
	}
	want := naive(data, airlineWrites, []string{"transfer_to_human_agents"})
	if diff := cmp.Diff(want, figures(score(t, "a.json", data, ScoreOptions{}).Arms[0]), approx); diff != "" {
		t.Error(diff)
	}
	var file []object
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	checkMutations(t, encode(t, file[:30]))
}

// one trace with the given calls: pairs of (tool with arguments, result).
func oneTask(task, trial int, reward float64, actions []any, pairs ...string) object {
	traj := []any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		tool, args, _ := strings.Cut(pairs[i], " ")
		traj = append(traj,
			object{"role": "assistant", "tool_calls": []any{object{"id": "c", "function": object{"name": tool, "arguments": args}}}},
			object{"role": "tool", "name": tool, "content": pairs[i+1]})
	}
	return object{"task_id": task, "trial": trial, "reward": reward, "traj": traj, "info": object{"task": object{"actions": actions}}}
}

// TestF22_IntendedEqualWritesAreNoDuplicates: of equal writes only those
// beyond the recorded multiplicity are duplicates.
func TestF22_IntendedEqualWritesAreNoDuplicates(t *testing.T) {
	t.Parallel()
	a := object{"name": "send_certificate", "kwargs": object{"user_id": "u", "amount": 25}}
	w := `send_certificate {"amount":25.0,"user_id":"u"}`
	for _, c := range []struct {
		pairs     []string
		dup, coll int
	}{
		{[]string{w, "ok", w, "ok"}, 0, 0},
		{[]string{w, "ok"}, 0, 0},
		{[]string{w, "ok", w, "ok", w, "ok"}, 1, 0},
		{[]string{w, "ok", w, "ok", w, "Error: no"}, 0, 0},
		{[]string{`send_certificate {"amount":1}`, "ok"}, 0, 1},
		{[]string{"get_user_details {}", "[]", "get_user_details {}", "null"}, 0, 0},
	} {
		doc := score(t, "x.json", encode(t, []object{oneTask(1, 0, 1, []any{a, a}, append(c.pairs, "list_all_airports {}", "[]")...)}), ScoreOptions{})
		if got := doc.Arms[0]; got.DuplicateEffects.Count != c.dup || got.Collateral.Count != c.coll {
			t.Errorf("%v: duplicates %d, collateral %d; want %d, %d", c.pairs, got.DuplicateEffects.Count, got.Collateral.Count, c.dup, c.coll)
		}
	}
}

func TestScore_NoProfileIsNotEvaluableWithReason(t *testing.T) {
	t.Parallel()
	foreign := encode(t, []object{oneTask(1, 0, 1, nil, "launch_rocket {}", "Error: no", "launch_rocket {}", "up")})
	shared := encode(t, []object{oneTask(1, 0, 1, nil, "think {}", "")})
	for name, c := range map[string]struct {
		data   []byte
		o      ScoreOptions
		reason string
	}{
		"foreign tool":     {foreign, ScoreOptions{}, "no effect profile fits the tools called"},
		"only shared":      {shared, ScoreOptions{}, "no effect profile fits the tools called"},
		"none asked":       {foreign, ScoreOptions{Effects: Effects{None: true}}, "no effect profile (--effects none)"},
		"profile misfits":  {foreign, ScoreOptions{Effects: mustEffects(t, "tau-airline")}, "effect profile tau-airline does not list the tool launch_rocket"},
		"two would fit it": {encode(t, []object{oneTask(1, 0, 1, nil, "book_reservation {}", "ok", "cancel_pending_order {}", "ok")}), ScoreOptions{}, "no effect profile fits the tools called"},
	} {
		a := score(t, "x.json", c.data, c.o).Arms[0]
		if a.ToolErrors != nil || a.Writes != nil || a.RepeatedWork != nil || a.DuplicateEffects != nil || a.Collateral != nil || a.Unfinished != nil {
			t.Errorf("%s: guessed figures %+v", name, a)
		}
		lacks := map[string]string{}
		for _, n := range a.NotEvaluable {
			lacks[n.Metric] = n.Reason
		}
		for _, m := range []string{"tool_errors", "writes", "repeated_work", "duplicate_effects", "collateral_effects", "unfinished"} {
			if lacks[m] != c.reason {
				t.Errorf("%s: %s: reason %q, want %q", name, m, lacks[m], c.reason)
			}
		}
		if lacks["completion.se"] == "" || a.Completion.SE != nil {
			t.Errorf("%s: error of one cluster given", name)
		}
	}
}

func mustEffects(t *testing.T, spec string) Effects {
	t.Helper()
	e, err := LoadEffects(spec)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestF14_PoolsFilesOfOneArmAndRefusesRepeats(t *testing.T) {
	t.Parallel()
	file := func(path string, recs ...object) *trace.File {
		f, err := trace.Import(path, encode(t, recs), trace.FormatTauBench)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a := file("d/one.v1.json", oneTask(1, 0, 1, nil), oneTask(2, 0, 0, nil))
	b := file("d/two.json", oneTask(1, 1, 1, nil), oneTask(2, 1, 1, nil), oneTask(1, 2, 0, nil))
	doc, err := ScoreRecorded([]*trace.File{a, b}, ScoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Arms) != 2 || doc.Arms[0].Name != "one.v1" || doc.Arms[1].Name != "two" {
		t.Fatalf("arms %+v", doc.Arms)
	}
	doc, err = ScoreRecorded([]*trace.File{a, b}, ScoreOptions{Arm: "x"})
	if err != nil {
		t.Fatal(err)
	}
	x := doc.Arms[0]
	if len(doc.Arms) != 1 || x.Traces != 5 || x.Trials != 2 || len(x.PassHat) != 2 || len(doc.Warnings) != 2 {
		t.Errorf("pooled: %+v, warnings %v", x, doc.Warnings)
	}
	// Task 1: 2 of 3, task 2: 1 of 2. Ours: pass^1 = (2/3 + 1/2)/2, pass^2 = (1/3 + 0)/2. The publisher takes n = 3 for both: pass^1 = (2/3 + 1/3)/2.
	if x.PassHat["1"].String() != "0.583333333" || x.PassHat["2"].String() != "0.166666667" || x.PassHatPublished["1"].String() != "0.5" {
		t.Errorf("pass^k %v, published %v", x.PassHat, x.PassHatPublished)
	}
	_, err = ScoreRecorded([]*trace.File{a, file("d/again.json", oneTask(2, 0, 1, nil))}, ScoreOptions{Arm: "x"})
	if err == nil || err.Error() != `d/again.json: record 1: task 2, trial 0 is already record 2 of d/one.v1.json, in the same arm "x"` {
		t.Errorf("repeated (task, trial): %v", err)
	}
}

func TestNum_NineDecimalsNoNoise(t *testing.T) {
	t.Parallel()
	for in, want := range map[Num]string{0.43: "0.43", 0: "0", 1: "1", -1e-12: "0", 1. / 3: "0.333333333", 2. / 3: "0.666666667", 100: "100", 0.1 + 0.2: "0.3", 12e9: "12000000000"} {
		b, err := json.Marshal(in)
		if err != nil || string(b) != want {
			t.Errorf("%v: %s %v, want %s", float64(in), b, err, want)
		}
	}
	for _, bad := range []float64{1, -1} {
		if _, err := json.Marshal(Num(bad / zero)); err == nil {
			t.Error("a number that is not finite was written")
		}
	}
}

var zero float64
