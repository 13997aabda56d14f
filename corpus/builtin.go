package corpus

import (
	"embed"
	"io/fs"
	"sync"
)

// The built-in cases, by family folder: a wildcard would embed the gold files
// that lie in the same tree.
//
//go:embed answer/*.yaml brief/*.yaml change/*.yaml errand/*.yaml facts/*.yaml ledger/*.yaml triage/*.yaml
var builtin embed.FS

var loadBuiltin = sync.OnceValues(func() (*Corpus, error) { return Load(builtin) })

// Builtin returns the built-in corpus. It is loaded once and shared.
func Builtin() (*Corpus, error) { return loadBuiltin() }

// BuiltinFS is the tree of the built-in cases, without gold.
func BuiltinFS() fs.FS { return builtin }
