package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// tracesOnDisk names a finished campaign and its store.
type tracesOnDisk struct{ campaign, store string }

// tauLine is a recorded trajectory as tau-bench writes it, but shorter.
const tauLine = `{"task_id":%d,"trial":%d,"reward":%d.0,"info":{"task":{"user_id":"u_%d","instruction":"Exchange the lamp for the blue one.","actions":[{"name":"get_order","kwargs":{"order_id":"#W%d"}},{"name":"exchange_items","kwargs":{"order_id":"#W%d","items":["a","b"],"price":12.5}}]},"user_cost":0.01},"traj":[{"role":"system","content":"%s"},{"role":"user","content":"Hi, I want to exchange a lamp."},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_order","arguments":"{\"order_id\": \"#W%d\"}"}}]},{"role":"tool","name":"get_order","tool_call_id":"call_1","content":"{\"status\":\"delivered\",\"items\":[{\"id\":\"a\",\"price\":12.5},{\"id\":\"b\",\"price\":30.0}],\"address\":{\"city\":\"Zürich\"}}"},{"role":"assistant","content":"It can be exchanged.","tool_calls":[{"id":"call_2","type":"function","function":{"name":"exchange_items","arguments":"{\"items\": [\"a\", \"b\"], \"order_id\": \"#W%d\", \"price\": 12.50}"}}]},{"role":"tool","name":"exchange_items","tool_call_id":"call_2","content":"ok"},{"role":"assistant","content":"Done. Anything else?"}]}`

func tauFile(records int) []byte {
	policy := strings.Repeat("Items may be exchanged once, for another of the same kind. ", 60)
	var b bytes.Buffer
	for i := range records {
		sep := ",\n"
		if i == 0 {
			sep = "["
		}
		_, _ = fmt.Fprintf(&b, sep+tauLine, i/4, i%4, i%2, i, i, i, policy, i, i) // a buffer takes all
	}
	b.WriteString("]\n")
	return b.Bytes()
}

// tauTyped holds what a reader of such files looks at.
type tauTyped struct {
	TaskID int     `json:"task_id"`
	Trial  int     `json:"trial"`
	Reward float64 `json:"reward"`
	Info   struct {
		Task struct {
			Actions []struct {
				Name   string         `json:"name"`
				Kwargs map[string]any `json:"kwargs"`
			} `json:"actions"`
		} `json:"task"`
		UserCost float64 `json:"user_cost"`
	} `json:"info"`
	Traj []struct {
		Role      string `json:"role"`
		Content   string `json:"content"`
		Name      string `json:"name"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"traj"`
}

// scoring measures the scoring of recorded files and of native traces, each
// next to the decoding of the same JSON into types by the standard library.
func (m *bench) scoring(b *testing.B) {
	data := tauFile(m.scaled(8000))
	path := filepath.Join(m.dir, "recorded.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	f, _ := m.command(b, "score of a recorded file, whole command", "score", path, "--json")
	f.Bytes = int64(len(data))
	m.add(f)
	start := time.Now()
	var typed []tauTyped
	if err := json.Unmarshal(data, &typed); err != nil {
		b.Fatal(err)
	}
	m.add(figure{What: "  decoding the same file", WallSeconds: time.Since(start).Seconds(), Bytes: int64(len(data))})

	sc, dones := m.finished(b)
	start = time.Now()
	var size int64
	for _, d := range dones {
		size += int64(len(d.Trace))
		if err := sc.add(d); err != nil {
			b.Fatal(err)
		}
	}
	m.add(figure{What: "check and score of native traces", WallSeconds: time.Since(start).Seconds(), Bytes: size, Trials: len(dones)})
	start = time.Now()
	for _, d := range dones {
		for line := range bytes.Lines(d.Trace) {
			if err := decodeTyped(line); err != nil {
				b.Fatal(err)
			}
		}
	}
	m.add(figure{What: "  decoding the same lines", WallSeconds: time.Since(start).Seconds(), Bytes: size, Trials: len(dones)})
}

// finished reads the trials of the last campaign that was run.
func (m *bench) finished(b *testing.B) (*scorer, []campaigns.Done) {
	b.Helper()
	plan, cs, err := new(app).resolvePlan(m.traces.campaign, campaigns.Override{})
	if err != nil {
		b.Fatal(err)
	}
	st, err := sqlite.Open(b.Context(), m.traces.store, sqlite.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	}()
	all, err := st.Campaigns(b.Context(), plan.Name)
	if err != nil || len(all) != 1 {
		b.Fatalf("%d campaigns, %v", len(all), err)
	}
	trials, err := st.Trials(b.Context(), all[0].ID)
	if err != nil {
		b.Fatal(err)
	}
	records := map[string]store.Trial{}
	for _, t := range trials {
		records[t.Key] = t
	}
	var out []campaigns.Done
	for _, seat := range plan.Seats() {
		_, content, err := st.Trace(b.Context(), all[0].ID, seat.Key())
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, campaigns.Done{Seat: seat, Record: records[seat.Key()], Trace: content})
	}
	return newScorer(plan, cs), out
}

// decodeTyped decodes one line of a trace, once the kind of its record is
// known by its beginning.
func decodeTyped(line []byte) error {
	var into any = new(trace.Event)
	switch {
	case bytes.Contains(line, []byte(`"rec":"op"`)):
		into = new(trace.Op)
	case bytes.Contains(line, []byte(`"rec":"effect"`)):
		into = new(trace.Effect)
	case bytes.Contains(line, []byte(`"rec":"owner"`)):
		into = new(trace.Owner)
	case bytes.Contains(line, []byte(`"rec":"header"`)):
		into = new(trace.Header)
	case bytes.Contains(line, []byte(`"rec":"end"`)):
		into = new(trace.End)
	}
	return json.Unmarshal(line, into)
}

// limits measures what the machine does without this program: transactions of
// the same driver with the same settings that insert rows of a commit's size,
// one a transaction, and as many as the campaign reached.
func (m *bench) limits(b *testing.B) {
	batches := []int{1}
	if m.batch > 1 {
		batches = append(batches, m.batch)
	}
	for _, mode := range []string{"FULL", "NORMAL"} {
		for _, batch := range batches {
			m.raw(b, mode, batch)
		}
	}
}

func (m *bench) raw(b *testing.B, mode string, batch int) {
	b.Helper()
	const rowBytes = 2000
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=journal_mode(WAL)&_pragma=synchronous(%s)%s",
		filepath.Join(m.dir, fmt.Sprintf("raw-%s-%d.db", mode, batch)), mode, m.settings()))
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	rows := m.scaled(20_000)
	if batch == 1 {
		rows = m.scaled(4_000)
	}
	var commits int64
	body := bytes.Repeat([]byte("x"), rowBytes)
	if _, err := db.Exec("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for n := 0; n < rows; n += batch {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		for range batch {
			if _, err = tx.Exec("INSERT INTO t (body) VALUES (?)", body); err != nil {
				break
			}
		}
		if err = errors.Join(err, tx.Commit()); err != nil {
			b.Fatal(err)
		}
		commits++
	}
	f := figure{What: fmt.Sprintf("raw SQLite, synchronous %s, batch %d", mode, batch), WallSeconds: time.Since(start).Seconds(), Commits: commits, Writes: commits * int64(batch)}
	f.Bytes = f.Writes * rowBytes
	m.add(f)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// settings are those pragmas of the store that a connection sets, as parts of a
// data source name.
func (m *bench) settings() string {
	var b strings.Builder
	for _, p := range m.Pragmas {
		switch p.Name {
		case "busy_timeout", "foreign_keys", "wal_autocheckpoint", "journal_size_limit", "cache_size":
			fmt.Fprintf(&b, "&_pragma=%s(%s)", p.Name, p.Value)
		}
	}
	return b.String()
}
