package gate

import (
	"embed"
	"errors"
	"io/fs"
	"path"
	"strings"
)

//go:embed policies/*.yaml
var policies embed.FS

// Names of the policies that ship with the tool.
const (
	PolicyDefault    = "default"    // of kind measured
	PolicySimulation = "simulation" // of kind simulation
)

// Builtin is a policy that ships with the tool; ok is false for an unknown
// name. The error is that of Parse.
func Builtin(name string) (p *Policy, ok bool, err error) {
	data, err := policies.ReadFile(path.Join("policies", name+".yaml"))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	p, err = Parse("builtin:"+name, data)
	return p, true, err
}

// BuiltinNames lists the policies that ship with the tool.
func BuiltinNames() []string {
	entries, err := policies.ReadDir("policies")
	if err != nil {
		return nil // the folder is part of the program
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}
