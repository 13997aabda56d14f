package freeze

import (
	"cmp"
	"context"
	"slices"
)

// Inputs are the parts of a manifest that the caller knows; Build adds the files.
type Inputs struct {
	Name      string
	Source    Source
	Root      string   // folder that the paths are relative to
	Include   []string // files and folders to freeze, relative to Root
	Binaries  []Binary
	Modules   map[string]string
	Prompts   map[string]string
	Prices    map[string]string
	Models    map[string]string
	Corpus    Corpus
	Evaluator map[string]string
	Policy    map[string]string
	Plan      map[string]string // see Manifest.Plan
	Cache     *Cache            // see HashOptions.Cache; nil reads every byte
	Gone      bool              // see HashOptions.Gone
}

// Build hashes the files and puts the manifest together. The errors are those
// of HashTrees.
func Build(ctx context.Context, in Inputs) (*Manifest, error) {
	trees, err := HashTrees(ctx, in.Root, HashOptions{Include: in.Include, Exclude: in.Source.Exclude, Cache: in.Cache, Gone: in.Gone})
	if err != nil {
		return nil, err
	}
	m := &Manifest{
		Schema: Schema, Name: in.Name, Source: in.Source, Trees: trees, Binaries: slices.Clone(in.Binaries),
		Modules: filled(in.Modules), Prompts: filled(in.Prompts), Prices: filled(in.Prices), Models: filled(in.Models),
		Corpus: in.Corpus, Evaluator: filled(in.Evaluator), Policy: filled(in.Policy), Plan: in.Plan,
	}
	slices.SortFunc(m.Binaries, func(a, b Binary) int {
		return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.SHA256, b.SHA256))
	})
	m.Binaries = slices.CompactFunc(m.Binaries, func(a, b Binary) bool { return a.Platform == b.Platform && a.SHA256 == b.SHA256 })
	if m.Binaries == nil {
		m.Binaries = []Binary{}
	}
	if m.Source.Exclude == nil {
		m.Source.Exclude = []string{}
	}
	if m.Corpus.Splits == nil {
		m.Corpus.Splits = map[string]Split{}
	}
	return m, nil
}

// Includes are the paths of the trees of a manifest, for building it anew.
func (m *Manifest) Includes() []string {
	out := make([]string, 0, len(m.Trees))
	for _, t := range m.Trees {
		out = append(out, t.Path)
	}
	return out
}

func filled(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
