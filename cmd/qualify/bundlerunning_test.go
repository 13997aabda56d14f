package main

import (
	"os"
	"strings"
	"testing"
)

// TestQ8_ARunningCampaignHasBundles: what is bundled while another process runs
// the campaign is the campaign at one moment, with the verdict of that moment, and
// verifies.
func TestQ8_ARunningCampaignHasBundles(t *testing.T) {
	t.Parallel()
	s := stage{t.TempDir()}
	s.want(t, exitOK, "init", s.dir, "--corpus", "cases")
	db, file := "sqlite:"+s.path(".qualify/qualify.db"), s.path("b.tar.zst")
	ended := make(chan int, 1)
	go func() {
		code, _, _ := command(t, "run", s.path("campaign.yaml"), "--trials", "15", "--store", db)
		ended <- code
	}()
	running := 0
	for running == 0 {
		code, _, talk := command(t, "report", "bundle", "first", "--corpus", s.path("cases"), "--store", db, "-o", file)
		switch {
		case code == exitUsage: // no campaign or trial yet
		case code != exitOK:
			t.Fatalf("report bundle: exit %d, %s", code, talk)
		default:
			s.want(t, exitOK, "report", "verify", file)
			if strings.Contains(s.want(t, exitOK, "campaign", "list", "--store", "bundle:"+file), "  running  ") {
				running++
			}
		}
		select {
		case code := <-ended:
			ended <- code
			if running == 0 {
				t.Fatalf("the run ended with %d before a bundle was made of it", code)
			}
		default:
		}
	}
	if code := <-ended; code != exitOK {
		t.Errorf("the run ended with %d", code)
	}
}

// TestQ8_RecordsThatContradictEachOtherAreNotBundled: the line says what is wrong,
// and nothing is left of the attempt.
func TestQ8_RecordsThatContradictEachOtherAreNotBundled(t *testing.T) {
	t.Parallel()
	s := stage{t.TempDir()}
	s.want(t, exitOK, "init", s.dir, "--corpus", "cases")
	db := s.path(".qualify/qualify.db")
	s.want(t, exitOK, "run", s.path("campaign.yaml"), "--trials", "1", "--store", "sqlite:"+db)
	if edit(t, db, "UPDATE ledger SET campaign = 'c_other' WHERE kind = 'allot'") == 0 {
		t.Fatal("no row of the ledger was changed")
	}
	refused(t, exitUsage, "to campaign c_other; the allotment is", "report", "bundle", "first", "--corpus", s.path("cases"), "--store", "sqlite:"+db, "-o", s.path("b.tar.zst"))
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 4 { // .gitignore, .qualify, campaign.yaml, cases
		t.Errorf("left behind: %v, %v", left, err)
	}
}
