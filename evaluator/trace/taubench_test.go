package trace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tauOne = `{"task_id":1,"trial":0,"reward":1.0,"info":{"task":{"actions":[{"name":"book","kwargs":{"n":25.0,"a":1}}]},"user_cost":0.5},"extra":1,"traj":[
 {"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"find","arguments":"{\"b\": 2.0, \"a\":1}"}},{"id":"x","function":{"name":"book","arguments":"not json"}}]},
 {"role":"tool","name":"find","tool_call_id":"zzz","content":"[]"},
 {"role":"tool","name":"book","tool_call_id":"x","content":null},
 {"role":"tool","name":"book","tool_call_id":"x","content":"late"},
 {"role":"assistant","content":[{"type":"text","text":"all "},{"type":"text","text":"done"}]}]}`

func rec(task, trial, reward string) string {
	return `{"task_id":` + task + `,"trial":` + trial + `,"reward":` + reward + `,"info":{},"traj":[]}`
}

func TestTauBench_NeutralFormJoinsByPosition(t *testing.T) {
	t.Parallel()
	f, err := Import("p/q.json", []byte("["+tauOne+"]"), FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	cost := .5
	want := []Recorded{{
		Record: 1, Task: "1", Reward: 1, Met: true, UserCost: &cost, Orphans: 1,
		Calls: []RecordedCall{
			{ID: "x", Tool: "find", Args: rawJSON(`{"a":1,"b":2}`), ArgsText: `{"b": 2.0, "a":1}`, Answered: true, Result: "[]"},
			{ID: "x", Tool: "book", ArgsText: "not json", Answered: true},
		},
		Messages: []RecordedMessage{{Role: "assistant"}, {"tool", "find", "[]"}, {"tool", "book", ""}, {"tool", "book", "late"}, {Role: "assistant", Text: "all done"}},
		Expected: []RecordedAction{{"book", rawJSON(`{"a":1,"n":25}`)}},
	}}
	if diff := cmp.Diff(want, f.Records); diff != "" {
		t.Error(diff)
	}
	if f.Format != FormatTauBench || len(f.SHA256) != 64 || len(f.Lacks) != 4 {
		t.Errorf("file %+v", f)
	}
}

// TestTauBench_CallWithoutResultDoesNotShiftLaterOnes: results that follow a
// new set of calls belong to that set.
func TestTauBench_CallWithoutResultDoesNotShiftLaterOnes(t *testing.T) {
	t.Parallel()
	call := func(name string) string {
		return `{"role":"assistant","tool_calls":[{"id":"i","function":{"name":"` + name + `","arguments":"{}"}}]}`
	}
	in := `[{"task_id":1,"trial":0,"reward":0,"traj":[` + call("a") + `,` + call("b") + `,{"role":"tool","content":"B"}]}]`
	f, err := Import("x", []byte(in), FormatTauBench)
	if err != nil {
		t.Fatal(err)
	}
	c := f.Records[0].Calls
	if c[0].Answered || !c[1].Answered || c[1].Result != "B" || f.Records[0].Messages[2].Tool != "b" || f.Records[0].Expected != nil {
		t.Errorf("%+v", f.Records[0])
	}
}

func TestTauBench_Rewards(t *testing.T) {
	t.Parallel()
	for reward, met := range map[string]bool{"0.5": false, "0": false, "1": true, "1.0": true, "0.9999995": true, "0.99999": false, "1.0000005": true} {
		f, err := Import("x", []byte("["+rec("1", "0", reward)+"]"), FormatAuto)
		if err != nil || f.Records[0].Met != met {
			t.Errorf("reward %s: %+v %v, want met %v", reward, f, err, met)
		}
	}
}

func TestImport_BadInputOneClearLine(t *testing.T) {
	t.Parallel()
	ok := rec("1", "0", "1")
	for in, want := range map[string]string{
		"":                                    "the file is empty",
		"\u0020\n":                            "the file is empty",
		"[]":                                  "no records: an empty array",
		"hello":                               "unrecognised format (known: tau-bench)",
		"[1]":                                 "unrecognised format (known: tau-bench)",
		`{"a":1}`:                             "unrecognised format (known: tau-bench)",
		`[{"task_id":1}]`:                     "unrecognised format (known: tau-bench)",
		"{\"schema\":\"qualify/trace/v1\"}\n": "unrecognised format: a qualify/trace/v1 trace of this tool is scored by its campaign, not by score",
		"[":                                   "truncated JSON: ends at byte offset 1 inside a value",
		"[" + ok:                              "truncated JSON: ends at byte offset 55 inside a value",
		"[" + ok + ",":                        "truncated JSON: ends at byte offset 56 inside a value",
		"[" + ok + `,{"task_id":2,"tr`:        "truncated JSON: ends at byte offset 72 inside a value",
		"[" + ok + `,{"task_id":NaN}]`:        "invalid JSON at byte offset 67: invalid character 'N' looking for beginning of value",
		"[" + ok + "] x":                      "data after the end of the array, at byte offset 57",
		"[" + ok + "][]":                      "data after the end of the array, at byte offset 56",
		"[" + rec("1", "0", "2") + "]":        "record 1: reward 2, want 0 to 1",
		"[" + ok + "," + rec("2", "0", "-1") + "]":                                                                       "record 2: reward -1, want 0 to 1",
		"[" + ok + "," + rec("2", "0", "1e400") + "]":                                                                    "record 2: reward 1e400 is out of range, want 0 to 1",
		"[" + rec("1", "0", `"1"`) + "]":                                                                                 `record 1: reward \"1\" is not a number`,
		"[" + rec("1", "0", `null`) + "]":                                                                                "record 1: no reward",
		"[" + ok + "," + rec("2", "0", "0") + "," + ok + "]":                                                             "record 3: task 1, trial 0 is already record 1",
		"[" + rec("1.5", "0", "1") + "]":                                                                                 "record 1: task_id 1.5 is neither an integer nor a text",
		"[" + rec(`""`, "0", "1") + "]":                                                                                  "record 1: task_id is empty",
		"[" + rec("1", "-1", "1") + "]":                                                                                  "record 1: trial -1 is not an integer from 0",
		"[" + rec("1", "null", "1") + "]":                                                                                "record 1: no trial",
		`[{"task_id":1,"trial":0,"reward":1,"traj":7}]`:                                                                  "record 1: traj: a JSON number where a slice belongs",
		`[{"task_id":1,"trial":0,"reward":1,"traj":[{}]}]`:                                                               "record 1: message 1 has no role",
		`[{"task_id":1,"trial":0,"reward":1,"traj":[{"role":"user","content":1}]}]`:                                      "record 1: message 1: content is neither text nor a list of parts",
		`[{"task_id":1,"trial":0,"reward":1,"traj":[{"role":"assistant","tool_calls":[{}]}]}]`:                           "record 1: message 1: tool call without a function name",
		`[{"task_id":1,"trial":0,"reward":1,"traj":[],"info":{"user_cost":"x"}}]`:                                        `record 1: user_cost \"x\" is not an amount`,
		`[{"task_id":1,"trial":0,"reward":1,"traj":[],"info":{"task":{"actions":[{"name":"a","kwargs":7}]}}}]`:           "record 1: ground-truth action 1 has no name or its kwargs are no object",
		`[{"task_id":1,"trial":0,"reward":"` + strings.Repeat("\x1b[31m", 1) + strings.Repeat("z", 60) + `","traj":[]}]`: "", // invalid JSON: raw control character
	} {
		_, err := Import("f.json", []byte(in), FormatAuto)
		var ie *InputError
		if !errors.As(err, &ie) {
			t.Errorf("%.80q: accepted, or no InputError: %v", in, err)
			continue
		}
		if want != "" && err.Error() != "f.json: "+want {
			t.Errorf("%.80q:\n got %s\nwant f.json: %s", in, err, want)
		}
		if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%.80q: not one clean line: %q", in, err)
		}
	}
	if _, err := Import("x", []byte("["+ok+"]"), "csv"); err == nil || !strings.Contains(err.Error(), `unknown format "csv"`) {
		t.Errorf("unknown format: %v", err)
	}
}

func TestImportFile_PathFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "e.json")
	good := filepath.Join(dir, "g.json")
	for p, s := range map[string]string{empty: "", good: "[" + tauOne + "]"} {
		if err := os.WriteFile(p, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		dir:                         dir + ": is a directory; name a file",
		empty:                       empty + ": the file is empty",
		filepath.Join(dir, "n.jsn"): filepath.Join(dir, "n.jsn") + ": no such file",
	} {
		if _, err := ImportFile(path, FormatAuto); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if f, err := ImportFile(good, FormatAuto); err != nil || len(f.Records) != 1 {
		t.Errorf("%+v %v", f, err)
	}
}

func TestTauBench_ExceptionRecord(t *testing.T) {
	t.Parallel()
	f, err := Import("x", []byte(`[{"task_id":1,"trial":0,"reward":0.0,"info":{"error":"boom\nmore","traceback":"t"},"traj":[]},
	 {"task_id":2,"trial":0,"reward":0.0,"info":{"traceback":"t"},"traj":[]}]`), FormatAuto)
	if err != nil || f.Records[0].Error != "boom" || f.Records[1].Error == "" {
		t.Errorf("%+v %v", f, err)
	}
}

func FuzzTauBench(f *testing.F) {
	f.Add([]byte("[" + tauOne + "]"))
	f.Add([]byte("[" + rec("1", "0", "0.5") + "," + rec("1", "1", "1") + "]"))
	f.Add([]byte(`[{"task_id":"a","trial":3,"reward":1e400}]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, format := range []string{FormatAuto, FormatTauBench} {
			file, err := Import("in", in, format)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Fatalf("error of more than one line: %q", err)
				}
				continue
			}
			for i, r := range file.Records {
				if r.Record != i+1 || r.Reward < 0 || r.Reward > 1+1e-6 || r.Task == "" {
					t.Fatalf("record %+v", r)
				}
			}
		}
	})
}
