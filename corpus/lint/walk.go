package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
)

// thinkUS is the time a step takes beside its tool call, in the walk.
const thinkUS = 2_000_000

// attempts is how often a step is tried; more than faults can strike one call
// in a row in a sensible case.
const attempts = 5

// walker walks a solution through the world, as one careful agent that tries
// again after an error or an unknown outcome.
type walker struct {
	c      *corpus.Case
	g      *gold.Gold
	w      *world.World
	o      *world.Owner
	now    int64
	ops    int
	events int
	said   map[string]bool
	done   map[string]bool
	known  map[string]int // confirmed effects by identity, as the agent knows
	fired  map[string]bool
	effect []gold.Effect
	words  []gold.Message
	arts   []gold.Artifacted
	drawn  []string // corrections the owner had to make
}

// walk runs the solution, with an idempotency key on every call.
func walk(c *corpus.Case, g *gold.Gold) (*walker, error) {
	w, err := world.New(c, 1)
	if err != nil {
		return nil, err
	}
	o, err := world.NewOwner(c, w)
	if err != nil {
		return nil, err
	}
	k := &walker{
		c: c, g: g, w: w, o: o,
		said: map[string]bool{}, done: map[string]bool{}, known: map[string]int{}, fired: map[string]bool{},
	}
	k.fold(engine.Event{Kind: engine.EvStarted})
	return k, k.run()
}

// run does every step in force, claims, and goes on while the owner has more
// to say.
func (k *walker) run() error {
	for {
		k.deliver(k.now)
		if s, ok := k.next(); ok {
			if err := k.step(s); err != nil {
				return err
			}
			continue
		}
		k.fold(engine.Event{Kind: engine.EvModelReply}, engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: k.c.Room.Agents[0].ID}})
		say, more := k.o.Next()
		if !more {
			return nil
		}
		if k.events > 1000 {
			return fmt.Errorf("the owner never stops talking")
		}
		k.deliver(max(k.now, say.AtUS))
	}
}

// next is the first step in force that is not done.
func (k *walker) next() (gold.Step, bool) {
	for _, s := range k.g.InForce(k.said) {
		if !k.done[s.ID] {
			return s, true
		}
	}
	return gold.Step{}, false
}

// deliver hands over every owner message due by a time.
func (k *walker) deliver(until int64) {
	for k.events <= 1000 {
		say, ok := k.o.Next()
		if !ok || say.AtUS > until {
			return
		}
		k.now = max(k.now, say.AtUS)
		id, _, _ := strings.Cut(say.Message.ID, "/")
		k.said[id] = true
		if slices.ContainsFunc(k.c.Owner.Corrections, func(x corpus.Correction) bool { return x.ID == id }) {
			k.drawn = append(k.drawn, id)
		}
		m := say.Message
		k.fold(engine.Event{ID: say.EventID, Kind: engine.EvOwnerMessage, Message: &m})
	}
}

func (k *walker) fold(ev engine.Event, commands ...engine.Command) {
	k.events++
	ev.AtUS = k.now
	k.o.Fold(engine.LogEntry{Rev: int64(k.events), Event: ev, Commands: commands})
}

func (k *walker) step(s gold.Step) error {
	k.done[s.ID] = true
	k.now += thinkUS
	if s.Final() {
		return k.finalWord(s)
	}
	for range attempts {
		out, err := k.call(s)
		if err != nil {
			return err
		}
		k.fold(engine.Event{Kind: engine.EvToolOK})
		if out.Outcome == engine.ToolOK {
			return nil
		}
		if out.Fault == "" {
			return fmt.Errorf("step %s: %s answers: %s", s.ID, s.Call, out.Result)
		}
	}
	return fmt.Errorf("step %s: %s does not answer in %d attempts", s.ID, s.Call, attempts)
}

func (k *walker) call(s gold.Step) (engine.ToolOutcome, error) {
	t, ok := k.c.Tool(s.Call)
	if !ok {
		return engine.ToolOutcome{}, fmt.Errorf("step %s calls unknown tool %q", s.ID, s.Call)
	}
	k.ops++
	req := engine.ToolRequest{
		Room: "lint", Op: fmt.Sprintf("op%d", k.ops), Tool: s.Call, Args: s.Args,
		Target: engine.Target(s.Args, t.Identity.Target), Agent: s.By, Task: "lint", AtUS: k.now,
	}
	var err error
	if req.Identity, err = engine.EffectIdentity(s.Call, s.Args, t.Identity.Volatile, req.Target); err != nil {
		return engine.ToolOutcome{}, fmt.Errorf("step %s: %w", s.ID, err)
	}
	if req.Key, err = engine.IdempotencyKey("lint", "lint", s.Call, s.Args, t.Identity.Volatile, k.known[req.Identity]); err != nil {
		return engine.ToolOutcome{}, fmt.Errorf("step %s: %w", s.ID, err)
	}
	out, err := k.w.Do(context.Background(), req)
	if err != nil {
		return out, fmt.Errorf("step %s: %w", s.ID, err)
	}
	if out.Effect != nil {
		e := *out.Effect
		if err := k.w.Apply(e); err != nil {
			return out, fmt.Errorf("step %s: %w", s.ID, err)
		}
		k.effect = append(k.effect, gold.Effect{
			Tool: e.Tool, Args: e.Args, Target: e.Target, Identity: e.Identity, State: e.State, Suppressed: e.Suppressed,
		})
	}
	if out.Outcome == engine.ToolOK {
		k.known[req.Identity]++
	}
	if out.Fault != "" {
		k.fired[out.Fault] = true
	}
	k.w.Called(req.Tool, req.Target)
	k.now += out.DurationUS
	return out, nil
}

func (k *walker) finalWord(s gold.Step) error {
	var commands []engine.Command
	if s.Artifact != nil {
		version := 1
		for _, a := range k.arts {
			if a.Name == s.Artifact.Name {
				version = a.Version + 1
			}
		}
		k.arts = append(k.arts, gold.Artifacted{Name: s.Artifact.Name, Version: version, Text: s.Artifact.Text})
	}
	if s.Say != "" {
		to := k.c.Room.Owner.ID
		k.words = append(k.words, gold.Message{From: s.By, To: to, Text: s.Say})
		commands = append(commands, engine.Command{Kind: engine.CmdSay, Say: &engine.Say{From: s.By, To: []string{to}, Text: engine.Plain(s.Say)}})
	}
	k.fold(engine.Event{Kind: engine.EvModelReply}, commands...)
	return nil
}

// outcome is what the walk has left behind.
func (k *walker) outcome() (gold.Outcome, error) {
	docs, err := k.w.Documents()
	if err != nil {
		return gold.Outcome{}, err
	}
	out := gold.Outcome{Documents: docs, Messages: slices.Clone(k.words), Artifacts: k.arts, Effects: k.effect}
	for _, m := range k.w.Messages() {
		out.Messages = append(out.Messages, gold.Message{From: m.From, To: m.To, Via: m.Via, Text: m.Text})
	}
	return out, nil
}

// start is the outcome of a trial in which nothing happened.
func start(c *corpus.Case) gold.Outcome {
	docs := map[string]json.RawMessage{}
	for name, v := range c.World.Documents {
		docs[name] = json.RawMessage(v)
	}
	return gold.Outcome{Documents: docs}
}
