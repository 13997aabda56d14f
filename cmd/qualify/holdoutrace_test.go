package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/freeze"
)

// TestQ4_TwoProcessesOpenOneHoldout: two builds, both allowed by one freeze, run
// the holdout at the same time as two campaigns, since the same file is another
// campaign in each build, in one store, and in one store with a copy of its log in
// a file. One opens it and runs; the other exits 5 and runs no trial; nothing is
// wrong with the log.
func TestQ4_TwoProcessesOpenOneHoldout(t *testing.T) {
	t.Parallel()
	bins := [2]string{qualifyBin(t), anotherBuild(t)}
	base := heldOut{dir: frozenFolder(t)}
	editFile(t, base.path("qualify/campaign.yaml"), "trials: 5", "trials: 1")
	for round := range 4 {
		h := heldOut{dir: filepath.Join(t.TempDir(), "h")}
		if err := os.CopyFS(h.dir, os.DirFS(base.dir)); err != nil {
			t.Fatal(err)
		}
		mirror := []string{}
		if round%2 == 1 {
			mirror = append(mirror, "--seal-log", h.path("seal.jsonl"))
		}
		create := append([]string{"freeze", "create", h.path("qualify/campaign.yaml"), "--binary", bins[1], "--store", h.db()}, mirror...)
		if out, err := exec.Command(bins[0], create...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var runs [2]*child
		for i := range runs {
			c := &child{t: t, cmd: exec.Command(bins[i], h.args(append([]string{"--freeze", "f_"}, mirror...)...)...)}
			c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
			runs[i] = c
		}
		for _, c := range runs {
			if err := c.cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		won := -1
		for i, c := range runs {
			switch code, _ := c.wait(); {
			case code == exitOK && won < 0:
				won = i
			case code != exitRefused || !strings.Contains(c.line(), "opened the holdout under freeze") || c.out.Len() > 0:
				t.Errorf("round %d, process %d: exit %d, %s", round, i, code, c.err.String())
			}
		}
		if won < 0 {
			t.Fatalf("round %d: nobody opened the holdout", round)
		}
		h.onlyOneRan(t, runs[won].document().Campaign.ID)
	}
}

// onlyOneRan wants one opening in a sound log, by the campaign that has trials.
func (h heldOut) onlyOneRan(t *testing.T, id string) {
	t.Helper()
	rows := h.rows(t)
	if held := freeze.HoldoutOf(rows, id); held.All != 1 || !held.Whole() {
		t.Errorf("%d openings, %+v", held.All, held)
	}
	a := newApp(nil, os.Stdout, os.Stderr)
	a.storeURL = h.db()
	err := a.withStore(t.Context(), func(s store.Store) error {
		all, err := s.Campaigns(t.Context(), "")
		if err != nil {
			return err
		}
		for _, c := range all {
			trials, err := s.Trials(t.Context(), c.ID)
			if err != nil {
				return err
			}
			rooms, err := s.ListRooms(t.Context(), c.ID+"/")
			if err != nil {
				return err
			}
			if ran := c.ID == id; ran != (len(trials) > 0) || ran != (len(rooms) > 0) {
				t.Errorf("campaign %s, opened by %s: %d trials, %d rooms", c.ID, id, len(trials), len(rooms))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// crowded is a store to whose seal log another process appends a freeze right
// before our row.
type crowded struct {
	store.Store
	rows int
}

func (c *crowded) crowd(ctx context.Context) error {
	if c.rows == 0 {
		return nil
	}
	c.rows--
	m := &freeze.Manifest{Schema: freeze.Schema, Name: fmt.Sprint("of another process ", c.rows)}
	_, _, err := freeze.Seal(ctx, storeLog{c.Store}, m, freeze.Moment{At: "2026-11-30T15:00:00Z"})
	return err
}

func (c *crowded) AppendSeal(ctx context.Context, kind string, body []byte) (store.SealRow, error) {
	if err := c.crowd(ctx); err != nil {
		return store.SealRow{}, err
	}
	return c.Store.AppendSeal(ctx, kind, body)
}

func (c *crowded) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	if err := c.crowd(ctx); err != nil {
		return store.SealRow{}, err
	}
	return c.Store.AppendSealAfter(ctx, head, kind, body)
}

// TestQ4_ACheckpointCoversWhatStandsBeforeIt, though rows come while it is made.
func TestQ4_ACheckpointCoversWhatStandsBeforeIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, key := "sqlite:"+filepath.Join(dir, "q.db"), filepath.Join(dir, "key")
	if code, _, talk := command(t, "freeze", "log", "--new-key", key); code != exitOK {
		t.Fatal(talk)
	}
	code, talk := commandOn(t.Context(), func(s store.Store) store.Store { return &crowded{s, 2} }, "freeze", "log", "--sign", key, "--store", db)
	if code != exitOK {
		t.Fatal(talk)
	}
	if rows := (heldOut{dir: dir}).rows(t); len(rows) != 3 {
		t.Errorf("rows %v", kindsOf(rows))
	}
	if code, out, talk := command(t, "freeze", "log", "--key", key+".pub", "--store", db); code != exitOK {
		t.Errorf("exit %d: %s%s", code, out, talk)
	}
}
