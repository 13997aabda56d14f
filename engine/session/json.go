package session

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

type sessionJSON struct {
	State    state           `json:"state"`
	Messages json.RawMessage `json:"messages"`
}

// MarshalJSON writes the whole session; sealed texts appear by reference.
func (s *Session) MarshalJSON() ([]byte, error) {
	for ; s.n < len(s.s.Messages); s.n++ {
		b, err := json.Marshal(s.s.Messages[s.n])
		if err != nil {
			return nil, fmt.Errorf("session %s: %w", s.s.Config.Cause, err)
		}
		if s.n > 0 {
			s.encoded = append(s.encoded, ',')
		}
		s.encoded = append(s.encoded, b...)
	}
	list := make([]byte, 0, len(s.encoded)+2)
	list = append(list, '[')
	list = append(list, s.encoded...)
	list = append(list, ']')
	out := s.s
	if out.Config.Detached {
		out.Config.System = ""
	}
	return json.Marshal(sessionJSON{State: out, Messages: list})
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
