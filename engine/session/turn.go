package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
)

// maxArtifactName bounds the name of a delivered document, in bytes.
const maxArtifactName = 128

// ParseTurn reads the reply that ends a turn: exactly one JSON object with a
// known status, white space or one ```json fence around it tolerated, unknown
// fields ignored. problem is "" or one line that tells the model what to mend;
// the reply is then worth nothing.
func ParseTurn(text string) (reply engine.TurnReply, problem string) {
	fields, problem := object(Unfence(text))
	if problem != "" {
		return engine.TurnReply{}, problem
	}
	if problem = stringField(fields, "status", &reply.Status); problem != "" {
		return engine.TurnReply{}, problem
	}
	switch reply.Status {
	case engine.StatusDone, engine.StatusBlocked, engine.StatusQuestion, engine.StatusAnswer:
	default:
		return engine.TurnReply{}, fmt.Sprintf("status must be done, blocked, question or answer, not %q", reply.Status)
	}
	if problem = stringField(fields, "text", &reply.Text); problem != "" {
		return engine.TurnReply{}, problem
	}
	if reply.Text == "" && (reply.Status == engine.StatusQuestion || reply.Status == engine.StatusAnswer) {
		return engine.TurnReply{}, fmt.Sprintf("a reply of status %s needs a text", reply.Status)
	}
	raw, ok := fields["artifact"]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return reply, ""
	}
	if fields, problem = object(string(raw)); problem != "" {
		return engine.TurnReply{}, "artifact: " + problem
	}
	var a engine.ArtifactText
	if problem = stringField(fields, "name", &a.Name); problem == "" {
		problem = stringField(fields, "text", &a.Text)
	}
	if problem != "" {
		return engine.TurnReply{}, "artifact: " + problem
	}
	if a.Name == "" || len(a.Name) > maxArtifactName {
		return engine.TurnReply{}, fmt.Sprintf("artifact: name must have 1 to %d bytes", maxArtifactName)
	}
	reply.Artifact = &a
	return reply, ""
}

// Unfence strips white space and, when the whole text is one fenced block of
// Markdown, its fence; any other text is returned trimmed.
func Unfence(text string) string {
	t := strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(t, "```")
	if !ok {
		return t
	}
	rest, ok = strings.CutSuffix(rest, "```")
	if !ok {
		return t
	}
	info, body, ok := strings.Cut(rest, "\n")
	if !ok || (strings.TrimSpace(info) != "" && strings.TrimSpace(info) != "json") {
		return t
	}
	return strings.TrimSpace(body)
}

// object reads one JSON object; repeated keys make it unreadable, because two
// readers could then see two replies.
func object(text string) (map[string]json.RawMessage, string) {
	if !strings.HasPrefix(text, "{") {
		return nil, "the reply must be one JSON object and nothing else"
	}
	canon, err := engine.CanonicalJSON([]byte(text))
	if err != nil {
		return nil, fmt.Sprintf("the reply must be one JSON object and nothing else (%v)", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(canon, &fields); err != nil {
		return nil, fmt.Sprintf("the reply must be one JSON object and nothing else (%v)", err)
	}
	return fields, ""
}

// stringField reads an optional string; absent and null leave "".
func stringField(fields map[string]json.RawMessage, name string, into *string) string {
	raw, ok := fields[name]
	if !ok {
		return ""
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return name + " must be a string"
	}
	return ""
}

// bounded flattens s to one line and cuts it to maxFeedback bytes of whole
// characters.
func bounded(s string) string {
	s = strings.Join(strings.Fields(valid(s)), " ")
	if len(s) <= maxFeedback {
		return s
	}
	cut := maxFeedback - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// valid makes s storable in JSON without change. Text that a state holds by
// value must be: else a restored session would speak other bytes than the one
// that lived on.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
