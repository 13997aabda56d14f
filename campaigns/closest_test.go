package campaigns

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	stored := func(seq int64, id string, edit func(string) string) store.Campaign {
		q := mustResolve(t, edit, nil)
		return store.Campaign{ID: id, Name: q.Name, Plan: q.Canonical, CreatedSeq: seq}
	}
	seed := stored(1, "c_seed", replace("seed: 7", "seed: 8"))
	both := stored(2, "c_both", func(s string) string { return replace("seed: 7", "seed: 8")(replace("trials: 5", "trials: 6")(s)) })
	trials := stored(3, "c_trials", replace("trials: 5", "trials: 6"))
	code := stored(4, "c_code", nil)
	self := store.Campaign{ID: p.ID, Plan: p.Canonical, CreatedSeq: 9}
	for name, tc := range map[string]struct {
		stored  []store.Campaign
		want    string
		differs []string
	}{
		"none":                        {nil, "", nil},
		"only itself":                 {[]store.Campaign{self}, "", nil},
		"fewest keys, not the newest": {[]store.Campaign{seed, both, self}, "c_seed", []string{"seed"}},
		"the newest of equals":        {[]store.Campaign{trials, seed}, "c_trials", []string{"trials"}},
		"two keys":                    {[]store.Campaign{both}, "c_both", []string{"seed", "trials"}},
		"another code only":           {[]store.Campaign{code, trials}, "c_code", nil},
	} {
		got, differs, ok, err := p.Closest(tc.stored)
		if err != nil || ok != (tc.want != "") || got.ID != tc.want {
			t.Errorf("%s: %s, %t, %v; want %s", name, got.ID, ok, err, tc.want)
		}
		if diff := cmp.Diff(tc.differs, differs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, _, _, err := p.Closest([]store.Campaign{{ID: "c_bad", Plan: []byte("no JSON")}}); err == nil {
		t.Error("a damaged plan is no error")
	}
}

// F11: a missing price is a refusal of its own, unless the file has other
// faults too.
func TestF11_UnpricedModelIsRefused(t *testing.T) {
	t.Parallel()
	text := strings.Replace(demoText(t), "sim-1: {input", "sim-2: {input", 1)
	_, err := ParseFile("c.yaml", []byte(text))
	if !errors.Is(err, ErrUnpriced) || !strings.Contains(err.Error(), `c.yaml:`) || !strings.Contains(err.Error(), `no entry for model "sim-1"`) {
		t.Errorf("no price: %v", err)
	}
	_, err = ParseFile("c.yaml", []byte(strings.Replace(text, "trials: 5", "trials: 0", 1)))
	if err == nil || errors.Is(err, ErrUnpriced) {
		t.Errorf("no price and no trials: %v", err)
	}
}
