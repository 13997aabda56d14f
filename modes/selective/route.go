package selective

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/routing"
	"github.com/agentrooms/qualify/engine/session"
)

// maxRouterCalls bounds the router calls for one message: the first and one
// repair, whether the first was unreadable, named no candidate, failed or was
// lost. After that the default takes the message.
const maxRouterCalls = 2

// maxReason bounds quoted reasons in notes and feedback, in bytes.
const maxReason = 300

// routeCall is the router at work on the first message of the inbox.
type routeCall struct {
	Key   engine.OpKey `json:"key"`
	Calls int          `json:"calls"` // made for this message, this one included
}

// pump moves everything on that can move: messages to their participants, and
// waiting participants into free places.
func (m *machine) pump(ev engine.Event) ([]engine.Command, error) {
	var cmds []engine.Command
	for len(m.state.Inbox) > 0 && m.state.Route == nil {
		more, err := m.resolve(ev, routing.Answer{}, "")
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, more...)
	}
	return append(cmds, m.startWaiting()...), nil
}

// resolve decides the first message of the inbox, or asks the router about it.
// why tells, for the note, how a router that was asked came to no choice.
func (m *machine) resolve(ev engine.Event, answer routing.Answer, why string) ([]engine.Command, error) {
	msg := m.state.Inbox[0]
	candidates := m.eligible(ev, m.specialists)
	sel, err := routing.Resolve(routing.Input{
		Explicit:   m.table.Explicit(msg.Body, m.eligible(ev, m.everybody())),
		Candidates: candidates, Router: answer, Default: m.fallback,
	})
	if engine.CodeOf(err) == engine.CodeValidation {
		sel = routing.Selection{Basis: routing.BasisUnassigned, Participants: []string{}, Reason: bounded(err.Error())}
	} else if err != nil {
		return nil, fmt.Errorf("route message %s: %w", msg.ID, err)
	}
	if sel.AskRouter {
		return m.ask(msg, candidates, 0, "")
	}
	if why != "" && sel.Reason == "" {
		sel.Reason = why
	}
	m.state.Inbox = m.state.Inbox[1:]
	if len(m.state.Inbox) == 0 {
		m.state.Inbox = nil
	}
	note, err := routeNote(msg.ID, sel)
	if err != nil {
		return nil, err
	}
	cmds := []engine.Command{note}
	if sel.Basis == routing.BasisUnassigned {
		return append(cmds, m.unassigned(msg, sel.Reason)...), nil
	}
	from := msg.From
	if m.authority.IsOwner(from) {
		from = session.FromOwner(from)
	}
	for _, id := range sel.Participants {
		if err := m.deliver(id, from, msg.Text, msg.Scope); err != nil {
			return nil, err
		}
	}
	return cmds, nil
}

// unassigned tells the owner that nobody took the message; a person has to
// decide (C8).
func (m *machine) unassigned(msg incoming, reason string) []engine.Command {
	cmds := []engine.Command{{Kind: engine.CmdSay, Say: &engine.Say{
		ID: engine.StableID("msg_", Name, "unassigned", msg.Event), From: Router, To: []string{m.spec.Owner},
		Status: engine.StatusBlocked, Text: engine.Plain("Nobody took this message: " + reason + "."),
	}}}
	if !m.busy("") {
		cmds = append(cmds, engine.Command{Kind: engine.CmdEnd, End: &engine.End{Reason: engine.EndEscalated}})
	}
	return cmds
}

// ask makes a router call: the document is the last message, feedback on an
// earlier reply stands before it.
func (m *machine) ask(msg incoming, candidates []string, ordinal int, problem string) ([]engine.Command, error) {
	doc, err := engine.Canonical(engine.RouteRequest{
		Schema: engine.FormatRoute, Goal: m.spec.Goal,
		Message:    engine.PlanMessage{ID: msg.ID, Type: msg.Type, From: msg.From, Text: msg.Body},
		Candidates: m.participants(candidates),
	})
	if err != nil {
		return nil, fmt.Errorf("route request for %s: %w", msg.ID, err)
	}
	var messages []engine.Message
	if problem != "" {
		text := strings.NewReplacer("{problem}", problem).Replace(strings.TrimSpace(repairPrompt))
		messages = append(messages, engine.Message{Role: engine.MsgUser, From: session.Room, Text: engine.Plain(text)})
	}
	messages = append(messages, engine.Message{Role: engine.MsgUser, Text: engine.JSONText(doc)})
	key := engine.OpKey{Kind: engine.OpRoute, Cause: msg.Event, Ordinal: ordinal}
	m.state.Route = &routeCall{Key: key, Calls: ordinal + 1}
	return []engine.Command{{Kind: engine.CmdModel, Call: &engine.Call{
		Key: key, Agent: Router, Role: engine.RoleRouter, Task: msg.Scope,
		Request: &engine.Request{Format: engine.FormatRoute, System: engine.Plain(routerPrompt), Messages: messages},
	}}}, nil
}

// routed folds the outcome of a router call.
func (m *machine) routed(ev engine.Event) ([]engine.Command, error) {
	if len(m.state.Inbox) == 0 {
		return nil, fmt.Errorf("event %s: the router answers, and no message waits", ev.ID)
	}
	calls := m.state.Route.Calls
	m.state.Route = nil
	candidates := m.eligible(ev, m.specialists)
	choice, problem, again, err := readChoice(ev, candidates)
	if err != nil {
		return nil, err
	}
	if problem == "" {
		return m.resolve(ev, routing.Answer{Asked: true, Participant: choice}, "")
	}
	if again && calls < maxRouterCalls && len(candidates) > 0 {
		feedback := problem
		if ev.Kind != engine.EvModelReply {
			feedback = "" // the model never saw its own reply: the same request again
		}
		return m.ask(m.state.Inbox[0], candidates, calls, feedback)
	}
	return m.resolve(ev, routing.Answer{Asked: true}, "router: "+problem)
}

// readChoice reads a router call's outcome. problem is "" when choice stands;
// again says whether one more call could help.
func readChoice(ev engine.Event, candidates []string) (choice, problem string, again bool, err error) {
	if ev.Kind == engine.EvReservationRefused || ev.Kind == engine.EvDispatchRefused {
		if ev.Refusal == nil {
			return "", "", false, fmt.Errorf("event %s has no refusal", ev.ID)
		}
		return "", bounded(ev.Refusal.Code + ": " + ev.Refusal.Reason), false, nil
	}
	if ev.Kind == engine.EvModelFailed {
		return "", "the call failed", true, nil
	}
	if ev.Kind == engine.EvModelUnknown {
		return "", "no reply came", true, nil
	}
	if ev.Kind != engine.EvModelReply || ev.Reply == nil || !ev.Reply.Text.Loaded() {
		return "", "", false, fmt.Errorf("event %s (%s) is no outcome of a router call", ev.ID, ev.Kind)
	}
	choice, problem = parseChoice(ev.Reply.Text.S)
	if problem != "" {
		return "", problem, true, nil
	}
	_, err = routing.Resolve(routing.Input{Candidates: candidates, Router: routing.Answer{Asked: true, Participant: choice}})
	if err != nil && choice != "" && len(candidates) > 0 {
		return "", bounded(err.Error()), true, nil
	}
	return choice, "", false, nil
}

// parseChoice reads a RouteReply: one JSON object, white space or one fence
// around it tolerated, unknown fields ignored.
func parseChoice(text string) (choice, problem string) {
	const want = "the reply must be one JSON object with a participant"
	text = session.Unfence(text)
	if !strings.HasPrefix(text, "{") {
		return "", want
	}
	canon, err := engine.CanonicalJSON([]byte(text))
	if err != nil {
		return "", bounded(fmt.Sprintf("%s (%v)", want, err))
	}
	var reply struct {
		Participant *string `json:"participant"`
	}
	if err := json.Unmarshal(canon, &reply); err != nil {
		return "", bounded(fmt.Sprintf("%s (%v)", want, err))
	}
	if reply.Participant == nil {
		return "", want
	}
	return strings.TrimSpace(*reply.Participant), ""
}

func routeNote(message string, sel routing.Selection) (engine.Command, error) {
	body, err := engine.Canonical(struct {
		Message string `json:"message"`
		routing.Selection
	}{message, sel})
	if err != nil {
		return engine.Command{}, fmt.Errorf("route note for %s: %w", message, err)
	}
	return engine.Command{Kind: engine.CmdNote, Note: &engine.Note{Kind: "route", Body: engine.JSONText(body)}}, nil
}

// eligible keeps of ids those that the runtime resolved as authorized now; an
// event without facts restricts nobody.
func (m *machine) eligible(ev engine.Event, ids []string) []string {
	if ev.Facts == nil {
		return ids
	}
	var out []string
	for _, id := range ids {
		if slices.Contains(ev.Facts.Eligible, id) {
			out = append(out, id)
		}
	}
	return out
}

func (m *machine) everybody() []string {
	out := make([]string, 0, len(m.spec.Agents))
	for _, p := range m.spec.Agents {
		out = append(out, p.ID)
	}
	return out
}

func (m *machine) participants(ids []string) []engine.Participant {
	out := []engine.Participant{}
	for _, p := range m.spec.Agents {
		if slices.Contains(ids, p.ID) {
			out = append(out, p)
		}
	}
	return out
}

func bounded(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}
