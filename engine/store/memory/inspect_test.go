package memory_test

import (
	"testing"

	"github.com/agentrooms/qualify/engine/store/storetest"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	storetest.Counts(t, open(t))
}
