package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/freeze"
)

// TestRunFreeze_NoVoidResultIsAnEmptyList, which a reader of the document can
// walk through.
func TestRunFreeze_NoVoidResultIsAnEmptyList(t *testing.T) {
	t.Parallel()
	if runFreeze(&freeze.Holdout{}) != nil {
		t.Error("a campaign without a freeze has a part about one")
	}
	data, err := json.Marshal(runFreeze(&freeze.Holdout{Freeze: "f_1"}))
	if err != nil || !strings.Contains(string(data), `"void":[]`) {
		t.Errorf("%s, %v", data, err)
	}
	voids := []freeze.Void{{VoidEntry: freeze.VoidEntry{Trials: []string{"b", "a"}}}}
	data, err = json.Marshal(runFreeze(&freeze.Holdout{Freeze: "f_1", Voids: voids}))
	if err != nil || !strings.Contains(string(data), `"void":["a","b"]`) {
		t.Errorf("%s, %v", data, err)
	}
}
