package main

import (
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
