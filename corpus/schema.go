package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/agentrooms/qualify/engine"
)

// ArgSchema checks the arguments of a tool. It is safe for concurrent use.
type ArgSchema struct {
	schema *jsonschema.Schema
	props  map[string]bool
	must   map[string]bool
}

// noLoader refuses every reference out of the schema: a case is one file.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s is not allowed", url)
}

// compileArgs compiles the JSON Schema (draft 2020-12) of a tool's arguments,
// which must describe an object and close it with additionalProperties: false,
// so that a misspelt argument is refused and not ignored.
func compileArgs(params Value) (*ArgSchema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(params))
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	m, ok := doc.(map[string]any)
	if !ok || m["type"] != "object" {
		return nil, errors.New("params must be a schema of type object")
	}
	if closed, ok := m["additionalProperties"].(bool); !ok || closed {
		return nil, errors.New("params must say additionalProperties: false")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const url = "mem:///params.json"
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	sch, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("params: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	a := &ArgSchema{schema: sch, props: map[string]bool{}, must: map[string]bool{}}
	for name := range sch.Properties {
		a.props[name] = true
	}
	for _, name := range sch.Required {
		a.must[name] = true
	}
	return a, nil
}

// Has reports whether the arguments may hold the named field.
func (a *ArgSchema) Has(name string) bool { return a.props[name] }

// Requires reports whether the arguments must hold the named field.
func (a *ArgSchema) Requires(name string) bool { return a.must[name] }

// Check decodes and checks arguments as a model wrote them. The error is a
// text that helps to write them right: every violation with its place.
func (a *ArgSchema) Check(args []byte) (map[string]any, error) {
	canon, err := engine.CanonicalJSON(args) // also bounds the numbers the validator sees
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON: %w", err)
	}
	v, err := DecodeTree(canon)
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments must be a JSON object")
	}
	if err := a.schema.Validate(v); err != nil {
		var ve *jsonschema.ValidationError
		if !errors.As(err, &ve) {
			return nil, fmt.Errorf("the arguments cannot be checked: %w", err)
		}
		return nil, errors.New("invalid arguments: " + strings.Join(violations(ve), "; "))
	}
	return m, nil
}

// violations lists the leaves of a validation error, sorted: the library walks
// maps, and a result must be the same in every run.
func violations(e *jsonschema.ValidationError) []string {
	p := message.NewPrinter(language.English)
	var out []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) > 0 {
			return
		}
		at := "arguments"
		if len(e.InstanceLocation) > 0 {
			at = strings.Join(e.InstanceLocation, ".")
		}
		if extra, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			slices.Sort(extra.Properties)
		}
		out = append(out, at+": "+e.ErrorKind.LocalizedString(p))
	}
	walk(e)
	slices.Sort(out)
	return out
}
