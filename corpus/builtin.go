package corpus

import (
	"embed"
	"io/fs"
	"sync"
)

// The built-in cases by family folder, dev families first, then holdout ones: a
// wildcard would embed the gold files that lie in the same tree.
//
//go:embed answer/*.yaml brief/*.yaml change/*.yaml errand/*.yaml facts/*.yaml ledger/*.yaml triage/*.yaml
//go:embed access/*.yaml ballot/*.yaml convert/*.yaml quote/*.yaml refund/*.yaml rollout/*.yaml schedule/*.yaml shipping/*.yaml stock/*.yaml
var builtin embed.FS

var loadBuiltin = sync.OnceValues(func() (*Corpus, error) { return Load(builtin) })

// Builtin returns the built-in corpus. It is loaded once and shared.
func Builtin() (*Corpus, error) { return loadBuiltin() }

// BuiltinFS is the tree of the built-in cases, without gold.
func BuiltinFS() fs.FS { return builtin }
