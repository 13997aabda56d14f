package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// cli runs one command line in this process.
func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &talk)
	return code, out.String(), talk.String()
}

// storedRecords is all that a store has of a campaign: plan, trials and traces.
type storedRecords struct {
	Campaign store.Campaign
	Trials   []store.Trial
	Traces   map[string]string
	Models   map[string]bool // named in the headers of the traces
}

func recordsOf(t *testing.T, path, id string) storedRecords {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := storedRecords{Traces: map[string]string{}, Models: map[string]bool{}}
	if r.Campaign, err = s.Campaign(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if r.Trials, err = s.Trials(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, tr := range r.Trials {
		_, content, err := s.Trace(t.Context(), id, tr.Key)
		if err != nil {
			t.Fatal(err)
		}
		r.Traces[tr.Key] = string(content)
		got, err := trace.Read(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		r.Models[got.Header.Model] = true
	}
	return r
}

// F15: a campaign whose model was changed under its old name half-way never
// mixes models. It is a new campaign, which is said with the closest old one,
// and no record of the old one changes; with its old file the old one goes on.
func TestF15_AChangedModelNeverMixesIntoAnOldCampaign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, file := filepath.Join(dir, "q.db"), filepath.Join(dir, "c.yaml")
	text := strings.Replace(simulation{seed: 3, trials: 2}.yaml(), "corpus: builtin\n", "corpus: builtin\ncases: {include: [ledger-two-books-01]}\n", 1)
	changed := strings.NewReplacer("name: sim-1", "name: sim-2", "prices: {sim-1:", "prices: {sim-2:").Replace(text)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runIt := func(want int, flags ...string) (evaluator.RunDocument, string) {
		t.Helper()
		code, stdout, stderr := cli(t, append([]string{"run", file, "--json", "--store", "sqlite:" + path}, flags...)...)
		if code != want {
			t.Fatalf("exit %d, want %d: %s", code, want, stderr)
		}
		var doc evaluator.RunDocument
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
			t.Fatal(err)
		}
		return doc, stderr
	}
	write(text)
	first, talk := runIt(exitLimit, "--max-usd", "0.92") // one of two triples
	if strings.Contains(talk, "note: ") {
		t.Errorf("a first campaign is compared with another: %s", talk)
	}
	before := recordsOf(t, path, first.Campaign.ID)
	if n := len(before.Trials); n == 0 || len(first.DroppedTriples) == 0 {
		t.Fatalf("%d trials, dropped %v: the campaign is not half-way", n, first.DroppedTriples)
	}

	write(changed)
	second, talk := runIt(exitOK)
	if want := "note: campaign test has run before as " + first.Campaign.ID + "; this one is " + second.Campaign.ID + " and differs in model, prices\n"; !strings.Contains(talk, want) {
		t.Errorf("stderr has no line %q:\n%s", want, talk)
	}
	if diff := cmp.Diff(before, recordsOf(t, path, first.Campaign.ID)); diff != "" {
		t.Errorf("records of the old campaign (-before +after):\n%s", diff)
	}
	if got := recordsOf(t, path, second.Campaign.ID).Models; len(got) != 1 || !got["sim-2"] {
		t.Errorf("models of the new campaign: %v", got)
	}

	write(text)
	third, talk := runIt(exitOK)
	if third.Campaign.ID != first.Campaign.ID || strings.Contains(talk, "note: ") {
		t.Errorf("the old file runs %s, its campaign is %s:\n%s", third.Campaign.ID, first.Campaign.ID, talk)
	}
	after := recordsOf(t, path, first.Campaign.ID)
	if got := after.Models; len(got) != 1 || !got["sim-1"] {
		t.Errorf("models of the old campaign: %v", got)
	}
	for key, content := range before.Traces {
		if after.Traces[key] != content {
			t.Errorf("trace %s was written again", key)
		}
	}
}

// While a process runs a campaign, list and show name it and cancel is refused
// without changing anything.
func TestCampaignOfALiveProcessIsNotCancelled(t *testing.T) {
	t.Parallel()
	path := sqliteStore(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutCampaign(t.Context(), store.Campaign{ID: "c_1", Name: "demo", Plan: []byte("{}"), Status: campaigns.StatusRunning}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AcquireLease(t.Context(), campaigns.LeaseName("c_1"), "token", "pid 7 on elsewhere since noon [other/1 2]", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	url := "sqlite:" + path
	code, _, stderr := cli(t, "campaign", "cancel", "demo", "--store", url)
	if want := "qualify: campaign c_1 is run by pid 7 on elsewhere since noon; stop that process, then cancel again\n"; code != exitRefused || stderr != want {
		t.Errorf("exit %d, stderr %q; want %d, %q", code, stderr, exitRefused, want)
	}
	code, stdout, _ := cli(t, "campaign", "list", "--json", "--store", url)
	var list struct{ Campaigns []campaignLine }
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitOK {
		t.Fatalf("exit %d (%v): %s", code, err, stdout)
	}
	want := []campaignLine{{ID: "c_1", Name: "demo", Status: campaigns.StatusRunning, Owner: "pid 7 on elsewhere since noon", Created: 1}}
	if diff := cmp.Diff(want, list.Campaigns); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// F15: two campaigns of one name, stored within the same second or not, have one
// order, that in which they were stored; whoever names them gets the last one,
// whatever their ids.
func TestF15_TheNewestOfANameIsTheLastStored(t *testing.T) {
	t.Parallel()
	for _, ids := range [][2]string{{"c_a", "c_b"}, {"c_b", "c_a"}} {
		s := memory.New(memory.Options{}) // whose clock stands still
		for _, id := range ids {
			if err := s.PutCampaign(t.Context(), store.Campaign{ID: id, Name: "twin", PlanDigest: id, Status: "done"}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			for _, which := range []string{"twin", ""} {
				if c, err := findCampaign(t.Context(), s, which); err != nil || c.ID != ids[1] {
					t.Errorf("%q finds %s (%v), want %s", which, c.ID, err, ids[1])
				}
			}
		}
	}
}
