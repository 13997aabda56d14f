package archive

import (
	"maps"
	"slices"
	"strings"
)

// byName orders keys as the names of their files stand in byte order.
func byName(name func(key string) string) func(a, b string) int {
	return func(a, b string) int { return strings.Compare(name(a), name(b)) }
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
