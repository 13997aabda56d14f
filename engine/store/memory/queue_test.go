package memory_test

import (
	"math/rand/v2"
	"testing"

	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// Nobody starves: many campaigns of unequal needs on one ceiling, in 15 random
// histories.
func TestQueueOfManyCampaigns(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seeds from %d", seed)
	for i := range uint64(15) {
		storetest.QueueHistory(t, memory.New(memory.Options{}), seed+i)
	}
}
