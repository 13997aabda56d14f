package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
)

// errNotObject is the error of a reply that is no JSON object.
var errNotObject = errors.New("the reply must be one JSON object and nothing else")

// readObject reads a reply that must be one JSON object, canonicalised so that
// repeated keys are refused. White space and one Markdown fence around it are
// allowed, as in the turns of all modes.
func readObject(text string) ([]byte, error) {
	if len(text) > maxEnvelopeBytes {
		return nil, fmt.Errorf("the reply has more than %d bytes", maxEnvelopeBytes)
	}
	s := session.Unfence(text)
	if !strings.HasPrefix(s, "{") {
		return nil, errNotObject
	}
	b, err := engine.CanonicalJSON([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotObject, err)
	}
	return b, nil
}

// decode reads b into v, with the names of fields v does not have.
func decode(b []byte, v any, fields []string) (unknown []string, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(v); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return nil, fmt.Errorf("field %q must not be a %s", te.Field, te.Value)
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotObject
	}
	return unknownFields(b, fields)
}

// missingFields lists the names that the object b lacks.
func missingFields(b []byte, names ...string) []string {
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return names
	}
	return slices.DeleteFunc(names, func(n string) bool { _, ok := m[n]; return ok })
}

func unknownFields(b []byte, fields []string) ([]string, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	var unknown []string
	for k := range m {
		if !slices.Contains(fields, k) {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	return unknown, nil
}
