package session

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

var _ engine.Appender = (*Session)(nil)

type sessionJSON struct {
	State    state           `json:"state"`
	Messages json.RawMessage `json:"messages"`
}

// MarshalJSON writes the whole session; sealed texts appear by reference.
func (s *Session) MarshalJSON() ([]byte, error) { return s.AppendCanonical(nil) }

// AppendCanonical implements engine.Appender. Each message is encoded once.
func (s *Session) AppendCanonical(dst []byte) (_ []byte, err error) {
	for ; s.n < len(s.s.Messages); s.n++ {
		list := s.encoded
		if s.n > 0 {
			list = append(list, ',')
		}
		if list, err = engine.AppendCanonical(list, &s.s.Messages[s.n]); err != nil {
			return nil, fmt.Errorf("session %s: %w", s.s.Config.Cause, err)
		}
		s.encoded = list
	}
	dst = append(append(dst, `{"messages":[`...), s.encoded...)
	out := s.s
	if out.Config.Detached {
		out.Config.System = ""
	}
	if dst, err = engine.AppendCanonical(append(dst, `],"state":`...), &out); err != nil {
		return nil, fmt.Errorf("session %s: %w", s.s.Config.Cause, err)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON replaces the session by one that MarshalJSON wrote. The
// content of sealed texts is then not at hand, and nothing here needs it.
func (s *Session) UnmarshalJSON(b []byte) error {
	var j sessionJSON
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	var messages []engine.Message
	if err := json.Unmarshal(j.Messages, &messages); err != nil {
		return fmt.Errorf("session messages: %w", err)
	}
	*s = Session{s: j.State}
	s.s.Messages = messages
	return nil
}
