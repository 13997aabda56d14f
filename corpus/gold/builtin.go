package gold

import (
	"embed"
	"io/fs"
	"sync"
)

//go:embed */*.yaml
var builtin embed.FS

var loadBuiltin = sync.OnceValues(func() (*Set, error) { return Load(builtin) })

// Builtin returns the gold of the built-in corpus. It is loaded once and
// shared.
func Builtin() (*Set, error) { return loadBuiltin() }

// BuiltinFS is the tree of the built-in gold.
func BuiltinFS() fs.FS { return builtin }
