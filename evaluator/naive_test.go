package evaluator

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// naiveFigures is an independent computation over the raw JSON of a tau-bench
// file. It shares no code with the package: plain maps, encoding/json's key
// order and quadratic searches.
type naiveFigures struct {
	Traces, Cases, Met                int
	Rate, SE, Hat1, Hat2, At1, At2    float64
	Calls, Errors, Attempted, Conf    int
	Rep, RepIn, Work, WorkIn          int
	Dup, DupIn, Coll, CollIn          int
	Reused, Unfinished, WithException int
}

type object = map[string]any

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func normal(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func naive(data []byte, writes, ends []string) naiveFigures {
	var file []object
	if err := json.Unmarshal(data, &file); err != nil {
		panic(err)
	}
	f := naiveFigures{Traces: len(file)}
	type call struct {
		tool, args, id, result string
		answered               bool
	}
	byTask := map[float64][]float64{}
	for _, rec := range file {
		task, _ := rec["task_id"].(float64)
		reward, _ := rec["reward"].(float64)
		met := 0.0
		if reward > 0.999999 && reward < 1.000001 {
			met = 1
		}
		f.Met += int(met)
		byTask[task] = append(byTask[task], met)
		info, _ := rec["info"].(object)
		if _, bad := info["error"]; bad {
			f.WithException++
		}
		var calls []call
		var queue []int
		last := object{}
		for _, m := range list(rec["traj"]) {
			msg, _ := m.(object)
			last = msg
			if text(msg["role"]) == "tool" && len(queue) > 0 {
				calls[queue[0]].result, calls[queue[0]].answered = text(msg["content"]), true
				queue = queue[1:]
			}
			if tcs := list(msg["tool_calls"]); len(tcs) > 0 {
				queue = nil
				for _, tc := range tcs {
					o, _ := tc.(object)
					fn, _ := o["function"].(object)
					var args any
					if json.Unmarshal([]byte(text(fn["arguments"])), &args) != nil {
						args = text(fn["arguments"])
					}
					queue = append(queue, len(calls))
					calls = append(calls, call{tool: text(fn["name"]), args: normal(args), id: text(o["id"])})
				}
			}
		}
		rep, work, reused := 0, 0, false
		for i, c := range calls {
			f.Calls++
			if strings.HasPrefix(c.result, "Error:") {
				f.Errors++
			}
			same, good := false, false
			for _, d := range calls[:i] {
				reused = reused || d.id == c.id
				if d.tool == c.tool && d.args == c.args {
					same = true
					good = good || d.answered && !strings.HasPrefix(d.result, "Error:")
				}
			}
			if same {
				rep++
			}
			if good {
				work++
			}
		}
		f.Rep, f.Work = f.Rep+rep, f.Work+work
		f.RepIn, f.WorkIn = f.RepIn+one(rep), f.WorkIn+one(work)
		if reused {
			f.Reused++
		}
		var did []string
		for _, c := range calls {
			if slices.Contains(writes, c.tool) {
				f.Attempted++
				if c.answered && !strings.HasPrefix(c.result, "Error:") {
					f.Conf++
					did = append(did, c.tool+c.args)
				}
			}
		}
		var want []string
		if t, ok := info["task"].(object); ok {
			for _, a := range list(t["actions"]) {
				o, _ := a.(object)
				want = append(want, text(o["name"])+normal(o["kwargs"]))
			}
		}
		dup, coll := 0, 0
		for i, d := range did {
			expected, before := 0, 0
			for _, w := range want {
				if w == d {
					expected++
				}
			}
			for _, e := range did[:i] {
				if e == d {
					before++
				}
			}
			if expected == 0 {
				coll++
			}
			if before+1 > max(1, expected) {
				dup++
			}
		}
		f.Dup, f.Coll = f.Dup+dup, f.Coll+coll
		f.DupIn, f.CollIn = f.DupIn+one(dup), f.CollIn+one(coll)
		stop := text(last["role"]) == "user" && strings.Contains(text(last["content"]), "###STOP###")
		handed := text(last["role"]) == "tool" && slices.Contains(ends, text(last["name"]))
		if !stop && !handed {
			f.Unfinished++
		}
	}
	f.Cases = len(byTask)
	f.Rate = float64(f.Met) / float64(f.Traces)
	ss, tasks := 0.0, float64(len(byTask))
	for _, rs := range byTask {
		sum, c := 0.0, 0.0
		for _, r := range rs {
			sum, c = sum+r-f.Rate, c+r
		}
		ss += sum * sum
		n := float64(len(rs))
		f.Hat1, f.At1 = f.Hat1+c/n/tasks, f.At1+c/n/tasks
		if n > 1 {
			f.Hat2 += c * (c - 1) / (n * (n - 1)) / tasks
			f.At2 += (1 - (n-c)*(n-c-1)/(n*(n-1))) / tasks
		}
	}
	f.SE = math.Sqrt(ss) / float64(f.Traces) * math.Sqrt(tasks/(tasks-1))
	return f
}

func one(n int) int { return min(n, 1) }

// figures puts what the package says into the same form.
func figures(a ScoreArm) naiveFigures {
	return naiveFigures{
		Traces: a.Traces, Cases: a.Cases, Met: a.Completion.Met,
		Rate: float64(*a.Completion.Rate), SE: float64(*a.Completion.SE),
		Hat1: float64(a.PassHat["1"]), Hat2: float64(a.PassHat["2"]), At1: float64(a.PassAt["1"]), At2: float64(a.PassAt["2"]),
		Calls: a.ToolCalls, Errors: *a.ToolErrors, Attempted: a.Writes.Attempted, Conf: a.Writes.Confirmed,
		Rep: a.RepeatedCalls.Count, RepIn: a.RepeatedCalls.Traces, Work: a.RepeatedWork.Count, WorkIn: a.RepeatedWork.Traces,
		Dup: a.DuplicateEffects.Count, DupIn: a.DuplicateEffects.Traces, Coll: a.Collateral.Count, CollIn: a.Collateral.Traces,
		Reused: a.ReusedCallIDs.Traces, Unfinished: *a.Unfinished, WithException: a.Exceptions,
	}
}
