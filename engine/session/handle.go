package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Handle folds the outcome of the operation in flight. It returns the next
// command, or the Turn that ended; never both.
//
// An error means a bug or a corrupt log: an event for an operation that is not
// in flight, or one without the content its kind requires.
func (s *Session) Handle(ev engine.Event) ([]engine.Command, *Turn, error) {
	if ev.Key == nil || s.s.Flight == nil || *ev.Key != *s.s.Flight {
		return nil, nil, fmt.Errorf("session %s: event %s (%s) is for no operation in flight", s.s.Config.Cause, ev.ID, ev.Kind)
	}
	fold := s.foldFor(ev.Kind)
	if fold == nil {
		return nil, nil, fmt.Errorf("session %s: event %s of kind %s does not fit operation %s", s.s.Config.Cause, ev.ID, ev.Kind, s.s.Flight.Kind)
	}
	s.s.Flight = nil
	return fold(ev)
}

// foldFor picks how an event is folded; nil when its kind does not fit the
// operation in flight.
func (s *Session) foldFor(kind engine.EventKind) func(engine.Event) ([]engine.Command, *Turn, error) {
	if kind == engine.EvReservationRefused || kind == engine.EvDispatchRefused {
		return s.refused
	}
	if s.s.Flight.Kind == engine.OpTool {
		if kind == engine.EvToolOK || kind == engine.EvToolError || kind == engine.EvToolUnknown {
			return s.toolResult
		}
		return nil
	}
	if kind == engine.EvModelReply {
		return s.reply
	}
	if kind == engine.EvModelFailed || kind == engine.EvModelUnknown {
		return s.failed
	}
	return nil
}

func (s *Session) reply(ev engine.Event) ([]engine.Command, *Turn, error) {
	r := ev.Reply
	if r == nil || !r.Text.Loaded() {
		return nil, nil, fmt.Errorf("session %s: event %s has no reply content", s.s.Config.Cause, ev.ID)
	}
	s.s.Failures = 0
	calls := slices.Clone(r.ToolCalls)
	for i := range calls {
		if !calls[i].Args.Loaded() {
			return nil, nil, fmt.Errorf("session %s: event %s lacks the arguments of tool call %d", s.s.Config.Cause, ev.ID, i)
		}
		// Models repeat their call ids or leave them out; positions do not.
		s.s.Asked++
		calls[i].Tool = valid(calls[i].Tool)
		calls[i].ID = fmt.Sprintf("call_%d", s.s.Asked)
		s.s.Pending = append(s.s.Pending, s.check(calls[i]))
	}
	if len(calls) > 0 || strings.TrimSpace(r.Text.S) != "" {
		s.append(engine.Message{Role: engine.MsgAssistant, Text: r.Text, ToolCalls: calls})
	}
	if len(calls) > 0 {
		return s.advance()
	}
	parsed, problem := ParseTurn(r.Text.S)
	if problem == "" {
		return nil, s.end(Turn{Status: parsed.Status, Text: parsed.Text, Artifact: parsed.Artifact}), nil
	}
	if s.s.Repairs >= MaxRepairs {
		return nil, s.end(blocked(engine.CodeValidation, "No readable reply came: "+problem)), nil
	}
	s.s.Repairs++
	s.append(engine.Message{Role: engine.MsgUser, From: Room, Text: engine.Plain(repairText(problem))})
	return s.advance()
}

func (s *Session) failed(ev engine.Event) ([]engine.Command, *Turn, error) {
	s.s.Failures++
	lost := s.s.Config.Once && ev.Kind == engine.EvModelUnknown
	if s.s.Failures <= MaxRetries && !lost {
		return s.advance()
	}
	if ev.Kind == engine.EvModelUnknown {
		return nil, s.end(blocked(engine.CodeUncertain, "The model gave no reply; whether the calls were made is unknown.")), nil
	}
	code, why := engine.CodeAdapter, "the model could not be reached"
	if r := ev.Reply; r != nil {
		if r.Code != "" {
			code = r.Code
		}
		if r.Error != "" {
			why = r.Error
		}
	}
	return nil, s.end(blocked(code, "The model call failed: "+why)), nil
}

func (s *Session) toolResult(ev engine.Event) ([]engine.Command, *Turn, error) {
	if len(s.s.Pending) == 0 || ev.Tool == nil {
		return nil, nil, fmt.Errorf("session %s: event %s has no tool result", s.s.Config.Cause, ev.ID)
	}
	if !ev.Tool.Result.Loaded() {
		return nil, nil, fmt.Errorf("session %s: event %s lacks the content of the tool result", s.s.Config.Cause, ev.ID)
	}
	text, outcome := toolText(ev)
	if s.s.Config.Evidence {
		p := s.s.Pending[0]
		s.s.Evidence = append(s.s.Evidence, engine.CallEvidence{Tool: p.Tool, Args: p.Canon, Outcome: outcome, Result: valid(text.S)})
	}
	s.answer(text)
	return s.advance()
}

// toolText is what the agent reads in place of a result, and the outcome as
// evidence names it.
func toolText(ev engine.Event) (text engine.Text, outcome string) {
	text = ev.Tool.Result
	if ev.Kind == engine.EvToolOK {
		return text, engine.ToolOK
	}
	if ev.Kind == engine.EvToolUnknown {
		return engine.Plain(engine.ToolUnknownResult), engine.ToolUnknown
	}
	if !strings.HasPrefix(text.S, engine.ToolErrorPrefix) {
		text = engine.Plain(engine.ToolErrorPrefix + valid(text.S))
	}
	return text, engine.ToolError
}

// refused ends the turn: money, authority or a limit stands in the way, and
// asking again would meet the same answer. Calls that were not made are
// answered in the conversation, so that a later turn starts from a whole one.
func (s *Session) refused(ev engine.Event) ([]engine.Command, *Turn, error) {
	if ev.Refusal == nil {
		return nil, nil, fmt.Errorf("session %s: event %s has no refusal", s.s.Config.Cause, ev.ID)
	}
	why := bounded(fmt.Sprintf("Refused (%s): %s", ev.Refusal.Code, ev.Refusal.Reason))
	for len(s.s.Pending) > 0 {
		s.answer(engine.Plain(engine.ToolErrorPrefix + "not run. " + why))
	}
	return nil, s.end(blocked(ev.Refusal.Code, why)), nil
}

// advance issues the next pending tool call, or the next model call.
func (s *Session) advance() ([]engine.Command, *Turn, error) {
	for len(s.s.Pending) > 0 {
		p := s.s.Pending[0]
		if p.Problem != "" {
			s.answer(engine.Plain(engine.ToolErrorPrefix + p.Problem))
			continue
		}
		key := s.key(engine.OpTool, &s.s.Tools)
		return []engine.Command{{Kind: engine.CmdTool, Call: &engine.Call{
			Key: key, Agent: s.s.Config.Agent, Role: s.s.Config.Role, Task: s.s.Scope,
			Tool: &engine.ToolUse{Tool: p.Tool, Args: p.Args},
		}}}, nil, nil
	}
	if s.s.Calls >= MaxModelCalls {
		return nil, s.end(blocked(engine.CodeLimitReached, fmt.Sprintf("The turn used all of its %d model calls.", MaxModelCalls))), nil
	}
	return s.call(), nil, nil
}

func (s *Session) call() []engine.Command {
	for _, u := range s.s.Unseen {
		s.append(engine.Message{Role: engine.MsgUser, From: u.From, Text: u.Text})
		if u.Task != "" {
			s.s.Scope = u.Task
		}
	}
	s.s.Unseen = nil
	s.s.Calls++
	key := s.key(s.s.Config.Kind, &s.s.Models)
	// The request is a copy: whoever seals its texts does not touch the state.
	messages := slices.Clone(s.s.Messages)
	for i := range messages {
		messages[i].ToolCalls = slices.Clone(messages[i].ToolCalls)
	}
	return []engine.Command{{Kind: engine.CmdModel, Call: &engine.Call{
		Key: key, Agent: s.s.Config.Agent, Role: s.s.Config.Role, Task: s.s.Scope,
		Request: &engine.Request{
			Format: engine.FormatTurn, System: engine.Plain(s.s.Config.System),
			Messages: messages, Tools: slices.Clone(s.s.Config.Tools),
		},
	}}}
}

func (s *Session) key(kind engine.OpKind, ordinal *int) engine.OpKey {
	key := engine.OpKey{Kind: kind, Cause: s.s.Config.Cause, Attempt: s.s.Config.Attempt, Ordinal: *ordinal}
	*ordinal++
	s.s.Flight = &key
	return key
}

// check decides whether a tool call can be dispatched: a tool of this session
// and arguments that are one JSON object with a canonical form. The arguments
// themselves travel as the model wrote them.
func (s *Session) check(tc engine.ToolCall) pending {
	p := pending{ID: tc.ID, Tool: tc.Tool, Args: tc.Args}
	if !slices.Contains(s.s.Config.Tools, tc.Tool) {
		p.Problem = bounded(fmt.Sprintf("you have no tool %q", tc.Tool))
		return p
	}
	if !strings.HasPrefix(strings.TrimLeft(tc.Args.S, " \t\r\n"), "{") {
		p.Problem = bounded(fmt.Sprintf("the arguments of %s are not one JSON object", tc.Tool))
		return p
	}
	canon, err := engine.CanonicalJSON([]byte(tc.Args.S))
	if err != nil {
		p.Problem = bounded(fmt.Sprintf("the arguments of %s are not one JSON object: %v", tc.Tool, err))
		return p
	}
	if s.s.Config.Evidence {
		p.Canon = canon
	}
	return p
}

// answer appends the result of the first pending tool call.
func (s *Session) answer(text engine.Text) {
	s.append(engine.Message{Role: engine.MsgTool, Text: text, ToolCallID: s.s.Pending[0].ID})
	s.s.Pending = s.s.Pending[1:]
	if len(s.s.Pending) == 0 {
		s.s.Pending = nil
	}
}

func (s *Session) append(m engine.Message) { s.s.Messages = append(s.s.Messages, m) }

func (s *Session) end(t Turn) *Turn {
	t.Calls = s.s.Evidence
	s.s.Evidence = nil
	s.s.Calls, s.s.Repairs, s.s.Failures = 0, 0, 0
	return &t
}

func blocked(code, text string) Turn {
	return Turn{Status: engine.StatusBlocked, Code: code, Text: bounded(text)}
}
