package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// TestSameAnswersAsMemory compares two independent implementations on random
// histories.
func TestSameAnswersAsMemory(t *testing.T) {
	t.Parallel()
	storetest.Differ(t, memory.New(memory.Options{}), openAt(t, filepath.Join(t.TempDir(), "s.db"), sqlite.Options{Create: true}))
}
