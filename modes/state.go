package modes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DecodeState reads a snapshot into a fresh state value. Unknown fields and
// data after the document are errors: a snapshot of another version must not
// be read as if it were this one's.
func DecodeState(snapshot []byte, state any) error {
	dec := json.NewDecoder(bytes.NewReader(snapshot))
	dec.DisallowUnknownFields()
	if err := dec.Decode(state); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("restore: data after the snapshot")
	}
	return nil
}
