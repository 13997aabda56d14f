package corpus

import "github.com/agentrooms/qualify/corpus/strictyaml"

// FileError is one fault of a file: one clear line with its place.
type FileError = strictyaml.Fault

// Errors lists every fault found, one line each, in reading order.
type Errors = strictyaml.Faults

// Source is one YAML file while it is checked.
type Source = strictyaml.Source

// DecodeYAML decodes one YAML document strictly into out, in the plain words of
// strictyaml.Decode.
func DecodeYAML(file string, data []byte, out any) *Source {
	return strictyaml.Decode(file, data, out, nil)
}
