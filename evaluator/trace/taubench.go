package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// rewardTolerance is the publisher's: a trial succeeds when its reward is
// within it of 1.
const rewardTolerance = 1e-6

type tauRecord struct {
	TaskID json.RawMessage `json:"task_id"`
	Trial  json.RawMessage `json:"trial"`
	Reward json.RawMessage `json:"reward"`
	Info   tauInfo         `json:"info"`
	Traj   []tauMessage    `json:"traj"`
}

type tauInfo struct {
	Task *struct {
		Actions []tauAction `json:"actions"`
	} `json:"task"`
	RewardInfo *struct {
		Actions []tauAction `json:"actions"`
	} `json:"reward_info"`
	UserCost  json.RawMessage `json:"user_cost"`
	Error     string          `json:"error"`
	Traceback string          `json:"traceback"`
}

type tauAction struct {
	Name   string          `json:"name"`
	Kwargs json.RawMessage `json:"kwargs"`
}

type tauMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Name      string          `json:"name"`
	ToolCalls []tauCall       `json:"tool_calls"`
}

type tauCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func fitsTauBench(array bool, fields map[string]json.RawMessage) bool {
	if !array {
		return false
	}
	for _, k := range []string{"task_id", "reward", "traj"} {
		if _, ok := fields[k]; !ok {
			return false
		}
	}
	return true
}

func tauBenchLacks() []Lack {
	return []Lack{
		{"cost", "the format records no agent usage"},
		{"latency", "no timestamps"},
		{"owner_corrections", "user turns are not typed"},
		{"false_completion", "no claim is recorded"},
	}
}

// readTauBench reads a tau-bench result file. Fields it does not know are
// left alone: forks add their own.
func readTauBench(data []byte) ([]Recorded, error) {
	type key struct {
		task  string
		trial int
	}
	var out []Recorded
	seen := map[key]int{}
	keys := shapeOf(reflect.TypeFor[tauRecord]())
	err := eachRecord(data, func(n int, raw json.RawMessage) error {
		if err := exactKeys(raw, keys); err != nil {
			return err
		}
		var tr tauRecord
		if err := json.Unmarshal(raw, &tr); err != nil {
			return fieldError(err)
		}
		rec, err := tr.neutral()
		if err != nil {
			return err
		}
		rec.Record = n
		k := key{rec.Task, rec.Trial}
		if first, dup := seen[k]; dup {
			return fmt.Errorf("task %s, trial %d is already record %d", rec.Task, rec.Trial, first)
		}
		seen[k] = n
		out = append(out, rec)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no records: an empty array")
	}
	return out, err
}

// fieldError names the field of a value of the wrong type.
func fieldError(err error) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		field := te.Field
		if field == "" {
			field = "the record"
		}
		return fmt.Errorf("%s: a JSON %s where a %s belongs", field, te.Value, te.Type.Kind())
	}
	return err
}

func (tr *tauRecord) neutral() (Recorded, error) {
	var rec Recorded
	var err error
	if rec.Task, err = taskID(tr.TaskID); err != nil {
		return rec, err
	}
	if rec.Trial, err = trialIndex(tr.Trial); err != nil {
		return rec, err
	}
	if rec.Reward, err = reward(tr.Reward); err != nil {
		return rec, err
	}
	rec.Met = rec.Reward >= 1-rewardTolerance
	rec.Error = firstLine(tr.Info.Error)
	if rec.Error == "" && tr.Info.Traceback != "" {
		rec.Error = "exception without a message"
	}
	if rec.UserCost, err = userCost(tr.Info.UserCost); err != nil {
		return rec, err
	}
	if tr.Traj == nil {
		return rec, errors.New("no traj") // what was not recorded is not nothing
	}
	if err := rec.joinCalls(tr.Traj); err != nil {
		return rec, err
	}
	var acts []tauAction
	switch {
	case tr.Info.Task != nil && tr.Info.Task.Actions != nil:
		acts = tr.Info.Task.Actions
	case tr.Info.RewardInfo != nil && tr.Info.RewardInfo.Actions != nil:
		acts = tr.Info.RewardInfo.Actions
	default:
		return rec, nil
	}
	rec.Expected = []RecordedAction{}
	for i, a := range acts {
		args, ok := canonicalObject(a.Kwargs)
		if !ok || a.Name == "" {
			return rec, fmt.Errorf("ground-truth action %d has no name or its kwargs are no object", i+1)
		}
		rec.Expected = append(rec.Expected, RecordedAction{a.Name, args})
	}
	return rec, nil
}

// joinCalls joins each tool result to the oldest call that still waits for
// one, whatever the ids say: ids repeat within real files. A new assistant
// message with calls ends the wait of earlier ones.
func (rec *Recorded) joinCalls(traj []tauMessage) error {
	waiting := 0 // index of the next call to be answered
	for i, m := range traj {
		if m.Role == "" {
			return fmt.Errorf("message %d has no role", i+1)
		}
		text, err := contentText(m.Content)
		if err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		rm := RecordedMessage{Role: m.Role, Text: text}
		if m.Role == "tool" {
			rm.Tool = m.Name
			if waiting < len(rec.Calls) {
				c := &rec.Calls[waiting]
				c.Answered, c.Result = true, text
				if rm.Tool == "" {
					rm.Tool = c.Tool
				}
				waiting++
			} else {
				rec.Orphans++
			}
		}
		rec.Messages = append(rec.Messages, rm)
		if len(m.ToolCalls) > 0 {
			waiting = len(rec.Calls)
		}
		for _, c := range m.ToolCalls {
			if c.Function.Name == "" {
				return fmt.Errorf("message %d: tool call without a function name", i+1)
			}
			args, _ := canonicalObject(json.RawMessage(c.Function.Arguments))
			rec.Calls = append(rec.Calls, RecordedCall{ID: c.ID, Tool: c.Function.Name, Args: args, ArgsText: c.Function.Arguments})
		}
	}
	return nil
}

func canonicalObject(raw json.RawMessage) (json.RawMessage, bool) {
	b := bytes.TrimSpace(raw)
	if len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	c, err := engine.CanonicalJSON(b)
	if err != nil {
		return nil, false
	}
	return c, true
}

// contentText accepts what OpenAI-style messages carry: null, a string, or a
// list of parts of which the text is taken.
func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("content is neither text nor a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

func taskID(raw json.RawMessage) (string, error) {
	if missing(raw) {
		return "", errors.New("no task_id")
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if s == "" {
			return "", errors.New("task_id is empty")
		}
		return s, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return "", fmt.Errorf("task_id %s is neither an integer nor a text", clip(raw))
	}
	return strconv.FormatInt(n, 10), nil
}

func trialIndex(raw json.RawMessage) (int, error) {
	if missing(raw) {
		return 0, errors.New("no trial")
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("trial %s is not an integer from 0", clip(raw))
	}
	return n, nil
}

// reward accepts 0…1 and, as the publisher's success test does, a hair more.
func reward(raw json.RawMessage) (float64, error) {
	if missing(raw) {
		return 0, errors.New("no reward")
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("reward %s is out of range, want 0 to 1", clip(raw))
	case err != nil:
		return 0, fmt.Errorf("reward %s is not a number", clip(raw))
	case f < 0 || f > 1+rewardTolerance:
		return 0, fmt.Errorf("reward %s, want 0 to 1", clip(raw))
	}
	return f, nil
}

func userCost(raw json.RawMessage) (*float64, error) {
	if missing(raw) {
		return nil, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < 0 {
		return nil, fmt.Errorf("user_cost %s is not an amount", clip(raw))
	}
	return &f, nil
}

func missing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// clip shortens foreign text for an error line.
func clip(raw json.RawMessage) string {
	s := strconv.QuoteToASCII(string(raw))
	s = s[1 : len(s)-1]
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return s
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
