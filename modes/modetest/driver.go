package modetest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/modes"
)

// TB is the part of testing.TB and rapid.T that a driver needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Driver plays one room.
type Driver struct {
	t    TB
	mode modes.Mode
	spec engine.RoomSpec

	live, twin engine.Machine
	blobs      map[string]string
	open       []engine.Call
	used       map[engine.OpKey]bool
	said       map[string]bool
	versions   map[string]int
	state      string // snapshot of the living machine
	claimed    bool
	n          int

	// Eligible is put into the facts of every event; nil leaves them out.
	Eligible []string
}

// Start builds the machines of a room and delivers EvStarted.
func Start(t TB, mode modes.Mode, spec engine.RoomSpec) *Driver {
	t.Helper()
	d := &Driver{
		t: t, mode: mode, spec: spec, blobs: map[string]string{}, used: map[engine.OpKey]bool{},
		said: map[string]bool{}, versions: map[string]int{},
	}
	d.live, d.twin = d.fresh(), d.fresh()
	d.state = d.snapshot(d.live)
	if cmds := d.Send(engine.Event{Kind: engine.EvStarted}); len(cmds) > 0 {
		t.Fatalf("commands before anybody spoke: %v", Lines(cmds))
	}
	return d
}

func (d *Driver) fresh() engine.Machine {
	d.t.Helper()
	m, err := d.mode.New(d.spec)
	if err != nil {
		d.t.Fatalf("new %s: %v", d.mode.Name(), err)
	}
	return m
}

// Send delivers one event to all machines and returns the commands, texts
// loaded. ID and facts are filled in.
func (d *Driver) Send(ev engine.Event) []engine.Command {
	d.t.Helper()
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("ev-%d", d.n)
	}
	d.n++
	if d.Eligible != nil {
		ev.Facts = &engine.Facts{Eligible: d.Eligible}
	}
	for _, t := range ev.Texts() {
		d.seal(t)
	}
	restored := d.reloaded()
	cmds, want, state := d.handle(d.live, ev)
	for name, m := range map[string]engine.Machine{"restored": restored, "parallel": d.twin} {
		_, commands, after := d.handle(m, ev)
		if commands != want {
			d.t.Fatalf("event %s: the %s machine wants\n%s\nthe living one\n%s", ev.ID, name, commands, want)
		}
		if after != state {
			d.t.Fatalf("event %s: state of the %s machine\n%s\nof the living one\n%s", ev.ID, name, after, state)
		}
	}
	if canon, err := engine.CanonicalJSON([]byte(state)); err != nil || string(canon) != state {
		d.t.Fatalf("event %s: the snapshot is not canonical JSON: %v\n%s", ev.ID, err, state)
	}
	d.state = state
	if ev.Key != nil {
		d.open = slices.DeleteFunc(d.open, func(c engine.Call) bool { return c.Key == *ev.Key })
	}
	for i := range cmds {
		d.check(&cmds[i], i)
	}
	return cmds
}

// Reload replaces the living machine by one restored from its snapshot, as a
// restarted process would.
func (d *Driver) Reload() {
	d.t.Helper()
	d.live = d.reloaded()
}

func (d *Driver) reloaded() engine.Machine {
	d.t.Helper()
	m := d.fresh()
	if err := m.Restore([]byte(d.state)); err != nil {
		d.t.Fatalf("restore: %v", err)
	}
	if h, ok := m.(engine.TextHolder); ok {
		for _, t := range h.Texts() {
			d.load(t)
		}
	}
	if got := d.snapshot(m); got != d.state {
		d.t.Fatalf("restored and snapshot again:\n%s\nbefore:\n%s", got, d.state)
	}
	return m
}

// handle folds an event and seals the commands where they stand. That must not
// reach into the machine: the snapshot of the living machine is taken before,
// those of the others after. It returns a copy of the commands, their JSON and
// the snapshot.
func (d *Driver) handle(m engine.Machine, ev engine.Event) (cmds []engine.Command, canon, state string) {
	d.t.Helper()
	got, err := m.Handle(ev)
	if err != nil {
		d.t.Fatalf("event %s (%s): %v", ev.ID, ev.Kind, err)
	}
	if m == d.live {
		state = d.snapshot(m)
	}
	for i := range got {
		for _, t := range got[i].Texts() {
			d.seal(t)
		}
	}
	if m != d.live {
		state = d.snapshot(m)
	}
	raw, err := json.Marshal(got)
	if err != nil {
		d.t.Fatalf("event %s: commands: %v", ev.ID, err)
	}
	if err := json.Unmarshal(raw, &cmds); err != nil {
		d.t.Fatalf("event %s: commands: %v", ev.ID, err)
	}
	return cmds, string(raw), state
}

// check holds one command against what every mode owes, loads its texts and
// remembers its call.
func (d *Driver) check(c *engine.Command, place int) {
	d.t.Helper()
	for _, t := range c.Texts() {
		d.load(t)
	}
	if c.Call != nil {
		if d.used[c.Call.Key] {
			d.t.Fatalf("operation key %+v is used twice", c.Call.Key)
		}
		if (c.Kind == engine.CmdModel) != (c.Call.Request != nil) || (c.Kind == engine.CmdTool) != (c.Call.Tool != nil) {
			d.t.Fatalf("command %s is filled wrongly", c.Kind)
		}
		if c.Call.Agent == "" || c.Call.Role == "" {
			d.t.Fatalf("call %+v has no agent or no role", c.Call.Key)
		}
		if c.Call.Tool != nil && !json.Valid([]byte(c.Call.Tool.Args.S)) {
			d.t.Fatalf("tool call %+v has arguments that are no JSON: %q", c.Call.Key, c.Call.Tool.Args.S)
		}
		d.used[c.Call.Key] = true
		d.open = append(d.open, *c.Call)
	}
	if c.Say != nil {
		if c.Say.ID == "" || d.said[c.Say.ID] {
			d.t.Fatalf("message id %q is empty or used twice (R57)", c.Say.ID)
		}
		d.said[c.Say.ID] = true
	}
	if c.Artifact != nil {
		d.versions[c.Artifact.Name]++
		if got := c.Artifact.Version; got != d.versions[c.Artifact.Name] {
			d.t.Fatalf("artifact %s: version %d, want %d", c.Artifact.Name, got, d.versions[c.Artifact.Name])
		}
	}
	if c.Kind == engine.CmdWithdraw {
		if place != 0 || !d.claimed {
			d.t.Fatalf("withdrawal at place %d, claimed %v", place, d.claimed)
		}
		d.claimed = false
	}
	if c.Kind == engine.CmdClaim {
		d.claimed = true
	}
}

func (d *Driver) seal(t *engine.Text) {
	if t.Sealed() || t.IsZero() {
		return
	}
	digest := engine.BlobDigest([]byte("salt"), []byte(t.S))
	d.blobs[digest] = t.S
	t.Blob.Digest, t.Blob.Len = digest, len(t.S)
}

func (d *Driver) load(t *engine.Text) {
	d.t.Helper()
	if !t.Sealed() {
		return
	}
	s, ok := d.blobs[t.Blob.Digest]
	if !ok {
		d.t.Fatalf("no content for text %s", t.Blob.Digest)
	}
	t.S = s
}

func (d *Driver) snapshot(m engine.Machine) string {
	d.t.Helper()
	b, err := m.Snapshot()
	if err != nil {
		d.t.Fatalf("snapshot: %v", err)
	}
	return string(b)
}
