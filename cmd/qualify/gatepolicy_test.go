package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestQ4_AFreezeCoversThePolicyThatTheCampaignNames, without being told; the
// default one where it names none.
func TestQ4_AFreezeCoversThePolicyThatTheCampaignNames(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	campaign := filepath.Join(dir, "qualify/campaign.yaml")
	source := func() string {
		code, _, talk := command(t, "freeze", "create", campaign, "--store", "sqlite:"+filepath.Join(dir, "q.db"))
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, talk)
		}
		code, out, talk := command(t, "freeze", "show", "--store", "sqlite:"+filepath.Join(dir, "q.db"))
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, talk)
		}
		return out
	}
	if out := source(); !strings.Contains(out, "  builtin:default\n") {
		t.Errorf("none named:\n%s", out)
	}
	editFile(t, campaign, "\ncorpus: cases", "\npolicy: policy.yaml\ncorpus: cases")
	if out := source(); !strings.Contains(out, "  qualify/policy.yaml\n") {
		t.Errorf("named:\n%s", out)
	}
	editFile(t, filepath.Join(dir, "qualify/policy.yaml"), "margin: 0.10", "margin: 0.11")
	if code, doc := verifyFreeze(t, dir); code != exitFail || len(doc.Differences) != 2 || doc.Differences[0].Part != "plan" || doc.Differences[1].Part != "policy" {
		t.Errorf("a changed margin: exit %d, %+v", code, doc)
	}
}
