package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
)

// importer reads one foreign format.
type importer struct {
	format string
	// fits looks at the fields of the first record of an array, or of the
	// document itself.
	fits func(array bool, fields map[string]json.RawMessage) bool
	read func(data []byte) ([]Recorded, error)
	lack func() []Lack
}

func importers() []importer {
	return []importer{{FormatTauBench, fitsTauBench, readTauBench, tauBenchLacks}}
}

// Formats lists the formats that Import reads, sorted.
func Formats() []string {
	var out []string
	for _, im := range importers() {
		out = append(out, im.format)
	}
	return out
}

// ImportFile reads a file of a foreign format; format is one of Formats or
// FormatAuto. Every error is an *InputError.
func ImportFile(path, format string) (*File, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, &InputError{path, err}
	}
	return Import(path, data, format)
}

// Import reads the content of a file; path is used in messages only. Every
// error is an *InputError.
func Import(path string, data []byte, format string) (*File, error) {
	sum := engine.Digest(data)
	if bytes.HasPrefix(data, byteOrderMark) {
		data = append(bytes.Repeat([]byte{' '}, len(byteOrderMark)), data[len(byteOrderMark):]...) // offsets stay
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, &InputError{path, fmt.Errorf("no UTF-8 text: an invalid byte at byte offset %d", at)}
	}
	im, err := pick(data, format)
	if err != nil {
		return nil, &InputError{path, err}
	}
	recs, err := im.read(data)
	if err != nil {
		return nil, &InputError{path, err}
	}
	return &File{Path: path, SHA256: sum, Format: im.format, Records: recs, Lacks: im.lack()}, nil
}

// byteOrderMark is what some editors put before UTF-8 text.
var byteOrderMark = []byte("\ufeff")

// invalidUTF8 is the offset of the first byte that is no UTF-8, -1 for none.
// The JSON decoder would replace it, and make equal what differs.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

func pick(data []byte, format string) (importer, error) {
	known := strings.Join(Formats(), ", ")
	if len(bytes.TrimSpace(data)) == 0 {
		return importer{}, errEmptyFile
	}
	if format != FormatAuto && format != "" {
		for _, im := range importers() {
			if im.format == format {
				return im, nil
			}
		}
		return importer{}, fmt.Errorf("unknown format %q (known: %s, %s)", format, FormatAuto, known)
	}
	array, fields, err := firstObject(data)
	if err != nil {
		return importer{}, err
	}
	for _, im := range importers() {
		if im.fits(array, fields) {
			return im, nil
		}
	}
	var schema string
	if json.Unmarshal(fields["schema"], &schema) == nil && schema == Schema {
		return importer{}, fmt.Errorf("unrecognised format: a %s trace of this tool is scored by its campaign, not by score", Schema)
	}
	return importer{}, fmt.Errorf("unrecognised format (known: %s)", known)
}

// firstObject decodes the first JSON object of data: the document itself, or
// the first element of an array (fields nil when it is something else).
func firstObject(data []byte) (array bool, fields map[string]json.RawMessage, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	first := bytes.TrimLeft(data, " \t\r\n")[0]
	if first != '[' && first != '{' {
		return false, nil, nil
	}
	if first == '[' {
		array = true
		if _, err := dec.Token(); err != nil {
			return true, nil, jsonError(data, err)
		}
		if !dec.More() {
			if _, err := dec.Token(); err != nil {
				return true, nil, jsonError(data, err)
			}
			return true, nil, errors.New("no records: an empty array")
		}
	}
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return array, nil, jsonError(data, err)
	}
	if raw[0] != '{' {
		return array, nil, nil
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return array, nil, jsonError(data, err)
	}
	return array, fields, nil
}

// jsonError says where JSON breaks off or is wrong, as a byte offset from 0.
// The whole document is checked again, because a decoder that has handed out
// tokens no longer counts from the start.
func jsonError(data []byte, err error) error {
	var se *json.SyntaxError
	if errors.As(json.Unmarshal(data, new(json.RawMessage)), &se) {
		if se.Offset >= int64(len(data)) && strings.Contains(se.Error(), "unexpected end") {
			return fmt.Errorf("truncated JSON: ends at byte offset %d inside a value", len(data))
		}
		return fmt.Errorf("invalid JSON at byte offset %d: %w", max(se.Offset-1, 0), se)
	}
	return fmt.Errorf("invalid JSON: %w", err)
}

// eachRecord calls f with every element of the JSON array that data holds,
// counted from 1. Data after the array is an error.
func eachRecord(data []byte, f func(n int, raw json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	tok, err := dec.Token()
	if err != nil {
		return jsonError(data, err)
	}
	if tok != json.Delim('[') {
		return errors.New("want a JSON array of records")
	}
	for n := 1; dec.More(); n++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return jsonError(data, err)
		}
		if err := f(n, raw); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonError(data, err)
	}
	end := dec.InputOffset()
	if rest := bytes.TrimLeft(data[end:], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("data after the end of the array, at byte offset %d", len(data)-len(rest))
	}
	return nil
}
