package world

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// change is one entry of a patch: a value put or removed at a path, or a
// message sent. A patch holds everything Apply needs and no arguments.
type change struct {
	Put    []string        `json:"put,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Remove []string        `json:"remove,omitempty"`
	To     string          `json:"to,omitempty"`
	Text   string          `json:"text,omitempty"`
	Sent   bool            `json:"sent,omitempty"`
}

func putChange(tokens []string, value any) (change, error) {
	raw, err := engine.Canonical(value)
	if err != nil {
		return change{}, fmt.Errorf("value: %w", err)
	}
	return change{Put: tokens, Value: raw}, nil
}

// applyChanges folds a patch into the documents and returns the messages in
// it.
func applyChanges(docs any, list []change) (any, []change, error) {
	var sent []change
	for _, c := range list {
		var err error
		switch {
		case c.Sent:
			sent = append(sent, c)
		case len(c.Put) > 0:
			var v any
			if v, err = corpus.DecodeTree(c.Value); err == nil {
				docs, err = put(docs, c.Put, v)
			}
		case len(c.Remove) > 0:
			docs, err = remove(docs, c.Remove)
		default:
			err = fmt.Errorf("empty change")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return docs, sent, nil
}
