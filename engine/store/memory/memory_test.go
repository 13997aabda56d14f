package memory_test

import (
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

func open(testing.TB) *memory.Store { return memory.New(memory.Options{Now: time.Now}) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return open(t) }, storetest.Options{})
}
