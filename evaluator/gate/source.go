package gate

import (
	"strings"

	"github.com/agentrooms/qualify/corpus/strictyaml"
)

// Faults lists every mistake found in a policy file, in reading order, each with
// its line and what to do.
type Faults struct{ strictyaml.Faults }

// faults is the list as an error, nil when it is empty.
func faults(l strictyaml.Faults) error {
	if len(l) == 0 {
		return nil
	}
	return Faults{l}
}

// fileWords say what to do about a fault of a policy file.
func fileWords(k strictyaml.Kind, plain, want string) string {
	switch k {
	case strictyaml.Empty:
		return plain + "; qualify gate --print-default prints a policy to begin with"
	case strictyaml.UnknownField:
		return plain + "; qualify gate --print-default shows the fields there are"
	case strictyaml.WrongType:
		return plain + "; want " + kindWord(want)
	case strictyaml.Tag:
		return "tags are not read here; write the plain value"
	case strictyaml.NoValue:
		return plain + "; take it out"
	case strictyaml.MoreDocuments:
		return plain + "; keep one"
	case strictyaml.Other:
	}
	return plain
}

func kindWord(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "float") || strings.HasPrefix(goType, "int"):
		return "a number"
	case goType == "string":
		return "a text"
	}
	return "a mapping"
}
