package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DecodeCanonical decodes one document of canonical JSON into v and refuses
// every byte that encoding v again would not give back: unknown fields, repeated
// keys, another order or spacing, another spelling of the same value. So no bit
// of what was read can have been another one unseen.
func DecodeCanonical(data []byte, v any) error {
	if _, err := CanonicalJSON(data); err != nil {
		return err // words invalid documents and repeated keys best
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the document")
	}
	again, err := Canonical(v)
	if err != nil {
		return err
	}
	if bytes.Equal(again, data) {
		return nil
	}
	at := 0
	for at < min(len(again), len(data)) && again[at] == data[at] {
		at++
	}
	return fmt.Errorf("not in canonical form from byte %d on", at)
}
