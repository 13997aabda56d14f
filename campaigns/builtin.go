package campaigns

import (
	"embed"
	"strings"
)

//go:embed builtin/*.yaml
var builtinFS embed.FS

// Builtin is the text of a campaign file that ships with qualify.
func Builtin(name string) ([]byte, bool) {
	if strings.ContainsAny(name, "/\\") {
		return nil, false
	}
	b, err := builtinFS.ReadFile("builtin/" + name + ".yaml")
	return b, err == nil
}

// BuiltinNames lists the campaigns that ship with qualify.
func BuiltinNames() []string {
	entries, err := builtinFS.ReadDir("builtin")
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}
