package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// verified is the result of one trace.
type verified struct {
	Name    string `json:"name"` // file, or trial key
	Key     string `json:"key,omitempty"`
	OK      bool   `json:"ok"`
	Records int    `json:"records,omitempty"`
	Rows    int64  `json:"rows,omitempty"` // revisions of the room, with --store
	Digest  string `json:"digest,omitempty"`
	Fault   string `json:"fault,omitempty"`
	// Withheld names a content that is not in the store: chain and trace are
	// verified, the states cannot be rebuilt without it.
	Withheld string `json:"withheld,omitempty"`
	// Absent counts the contents that the rows name and the store does not hold,
	// whether states need them or not.
	Absent int `json:"absent,omitempty"`
}

func (a *app) traceVerifyCmd() *cobra.Command {
	var campaign, corpusName string
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Verify traces: every bit of a file, or a campaign in the store down to its rows",
		Long: `Verify traces. Files: every line must be the canonical encoding of its record
and every digest must match, so any changed bit is found. Without files, the
campaign's traces in the store are verified in the same way, compared with
their trial records and plan (a campaign that is done has every trial), every
revision of every room is rebuilt from its rows and its state digest compared,
and the trace is exported again from them and must be the same bytes. Where a
content was withheld or erased, the chain is verified without it and the line
says that the states were not rebuilt. Exit 1 when anything is wrong.`,
		RunE: func(c *cobra.Command, files []string) error {
			var results []verified
			var err error
			switch {
			case len(files) > 0 && c.Flags().Changed("store"):
				return usagef("%sgive files or --store, not both", inCommand(c))
			case len(files) > 0:
				results, err = verifyFiles(files)
			default:
				err = a.withTrials(c.Context(), campaign, func(s store.Store, camp store.Campaign, trials []store.Trial) error {
					results, err = a.verifyStored(c.Context(), s, camp, trials, corpusName)
					return err
				})
			}
			if err != nil {
				return err
			}
			return a.printVerified(results, asJSON)
		},
	}
	c.Flags().StringVar(&campaign, "campaign", "", "campaign `NAME` or id in the store (the newest)")
	campaignCorpusFlag(c, &corpusName)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// verifyFile verifies one file. What is wrong with it is an *exitError of
// input.
func verifyFile(path string) (trace.Info, error) {
	f, err := openInput(path)
	if err != nil {
		return trace.Info{}, err
	}
	info, err := trace.Verify(f)
	if err != nil {
		err = usagef("%s: %w", path, err)
	}
	return info, errors.Join(err, f.Close())
}

// verifyFiles verifies files; a file that cannot be read at all is an error,
// a trace that is wrong is a result.
func verifyFiles(paths []string) ([]verified, error) {
	var out []verified
	for _, path := range paths {
		info, err := verifyFile(path)
		var line *trace.LineError
		switch {
		case errors.As(err, &line):
			out = append(out, verified{Name: path, Fault: line.Error()})
		case err != nil:
			return nil, err
		default:
			out = append(out, verified{Name: path, Key: keyOf(info.Header), OK: true, Records: info.Records, Digest: info.Digest})
		}
	}
	return out, nil
}

// verifyStored verifies the traces of a campaign and the rows behind them.
func (a *app) verifyStored(ctx context.Context, s store.Store, camp store.Campaign, trials []store.Trial, corpusName string) ([]verified, error) {
	rebuild, err := a.rebuild(s, camp, corpusName)
	switch {
	case errors.Is(err, campaigns.ErrPlanChanged):
		return []verified{{Name: camp.ID, Fault: err.Error()}}, nil
	case err != nil:
		return nil, err
	}
	out := []verified{}
	missing := map[string]bool{}
	for _, key := range rebuild.planned {
		missing[key] = camp.Status == campaigns.StatusDone
	}
	for i := range trials {
		t := &trials[i]
		if !t.Terminal() || t.TraceDigest == "" {
			continue // still to run, or never run: there is no trace
		}
		missing[t.Key] = false
		v := verified{Name: t.Key, Key: t.Key, Digest: t.TraceDigest}
		info, content, err := checkStoredTrace(ctx, s, camp, t)
		if err == nil {
			v.Records = info.Records
			v.Rows, err = checkRows(ctx, s, t.Room, info.RoomDigest)
		}
		if err == nil {
			err = rebuild.record(*t, info)
		}
		if err == nil {
			v.Absent, err = checkRoom(ctx, s, t)
		}
		if err == nil {
			var again []byte
			switch again, err = rebuild.trace(ctx, *t); {
			case errors.Is(err, runtime.ErrWithheld):
				v.Withheld = err.Error()
				err = rebuild.withheld(ctx, *t, content)
			case err == nil && !bytes.Equal(again, content):
				err = errors.New("the stored trace is not the one that the room's rows stand for")
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v.Fault = err.Error()
		}
		v.OK = err == nil
		out = append(out, v)
	}
	for _, key := range rebuild.planned {
		if missing[key] {
			out = append(out, verified{Name: key, Key: key, Fault: "the campaign is done, and no closed trial is recorded"})
		}
	}
	return out, nil
}

// checkRoom verifies what lies beside the chain of a closed room: that it is
// closed, whose money it had, the snapshot, and every content that its rows
// name and the store still holds. It counts those that the store does not hold.
func checkRoom(ctx context.Context, s store.Store, t *store.Trial) (absent int, err error) {
	l, err := s.Load(ctx, t.Room)
	if err != nil {
		return 0, fmt.Errorf("load room %s: %w", t.Room, err)
	}
	rows, err := s.Rows(ctx, t.Room, -1, 0)
	if err != nil {
		return 0, fmt.Errorf("rows of room %s: %w", t.Room, err)
	}
	switch snap := l.Snapshot; {
	case !l.Head.Closed:
		return 0, fmt.Errorf("room %s: the trial is closed, its room is not", t.Room)
	case l.Head.Allotment != t.Allotment:
		return 0, fmt.Errorf("room %s: its money is from allotment %q, not %q", t.Room, l.Head.Allotment, t.Allotment)
	case snap == nil:
	case snap.Rev < 0 || snap.Rev >= int64(len(rows)) || rows[snap.Rev].Machine != snap.Machine || rows[snap.Rev].StateDigest != engine.Digest(snap.State):
		return 0, fmt.Errorf("room %s: the snapshot is not the state of its revision", t.Room)
	}
	outbox, err := s.Outbox(ctx, t.Room)
	if err != nil {
		return 0, fmt.Errorf("outbox of room %s: %w", t.Room, err)
	}
	if err := checkBeside(&l.Head, rows, l.Ops, l.Effects, outbox, t.Money.Limit); err != nil {
		return 0, fmt.Errorf("room %s: %w", t.Room, err)
	}
	named := map[string]bool{}
	for i := range rows {
		for _, text := range [][]byte{rows[i].Event, rows[i].Commands} {
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				return 0, fmt.Errorf("room %s revision %d: %w", t.Room, rows[i].Rev, err)
			}
			blobsIn(v, named)
		}
	}
	held, err := s.Blobs(ctx, t.Room, slices.Sorted(maps.Keys(named)))
	if err != nil {
		return 0, fmt.Errorf("contents of room %s: %w", t.Room, err)
	}
	for _, digest := range slices.Sorted(maps.Keys(held)) {
		if engine.BlobDigest(l.Head.Salt, held[digest]) != digest {
			return 0, fmt.Errorf("room %s: content %s is not the one that was stored", t.Room, digest)
		}
	}
	return len(named) - len(held), nil
}

// blobsIn notes the digests of the sealed texts in a JSON value.
func blobsIn(v any, named map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			blobsIn(e, named)
		}
	case map[string]any:
		digest, _ := v["digest"].(string)
		if _, sealed := v["media"]; sealed && digest != "" {
			named[digest] = true
		}
		for _, e := range v {
			blobsIn(e, named)
		}
	}
}

// checkRows walks the chain of a room's rows: revisions without a gap, every
// digest right, the last row the room's head and the one the trace names. It
// returns how many rows there are.
func checkRows(ctx context.Context, s store.Store, room, headDigest string) (int64, error) {
	rows, err := s.Rows(ctx, room, -1, 0)
	if err != nil {
		return 0, fmt.Errorf("rows of room %s: %w", room, err)
	}
	prev := ""
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Rev != int64(i):
			return 0, fmt.Errorf("room %s: revision %d stands where %d should", room, r.Rev, i)
		case r.Prev != prev:
			return 0, fmt.Errorf("room %s revision %d: broken chain", room, r.Rev)
		case engine.Digest(r.Commands) != r.CommandsDigest:
			return 0, fmt.Errorf("room %s revision %d: the commands do not match their digest", room, r.Rev)
		case store.RowDigest(*r) != r.Digest:
			return 0, fmt.Errorf("room %s revision %d: the row does not match its digest", room, r.Rev)
		}
		prev = r.Digest
	}
	if prev != headDigest {
		return 0, fmt.Errorf("room %s: the trace was exported from another head", room)
	}
	return int64(len(rows)), nil
}

// checkStoredTrace verifies one stored trace and that it is the one its trial
// record and room name.
func checkStoredTrace(ctx context.Context, s store.Store, camp store.Campaign, t *store.Trial) (trace.Info, []byte, error) {
	digest, content, err := s.Trace(ctx, camp.ID, t.Key)
	if err != nil {
		return trace.Info{}, nil, fmt.Errorf("trace of %s: %w", t.Key, err)
	}
	info, err := trace.Verify(bytes.NewReader(content))
	switch {
	case err != nil:
		return info, nil, err
	case info.Digest != digest || digest != t.TraceDigest:
		return info, nil, fmt.Errorf("the trace's digest is not the one in the trial record")
	case keyOf(info.Header) != t.Key:
		return info, nil, fmt.Errorf("the trace is of trial %s", keyOf(info.Header))
	case info.Header.Campaign != camp.PlanDigest:
		return info, nil, fmt.Errorf("the trace is of another plan")
	case info.Termination != t.Termination:
		return info, nil, fmt.Errorf("the trace ends with %s, the trial record with %s", info.Termination, t.Termination)
	}
	return info, content, nil
}

func (a *app) printVerified(results []verified, asJSON bool) error {
	var bad int
	var set []trace.SetEntry
	for _, v := range results {
		if v.OK {
			set = append(set, trace.SetEntry{Key: v.Key, Digest: v.Digest})
		} else {
			bad++
		}
	}
	setDigest := ""
	if bad == 0 && len(set) > 0 {
		// Files may name one trial twice: each is sound, but they are no set.
		if d, err := trace.SetDigest(set); err == nil {
			setDigest = d
		}
	}
	if asJSON {
		err := a.printJSON(struct {
			Schema schemaRef  `json:"schema"`
			OK     bool       `json:"ok"`
			Set    string     `json:"trace_set_digest,omitempty"`
			Traces []verified `json:"traces"`
		}{schemaRef{"qualify.verify", 1}, bad == 0, setDigest, results})
		if err != nil {
			return err
		}
	} else {
		for _, v := range results {
			switch {
			case !v.OK:
				a.printf("FAIL  %s: %s\n", oneLine(v.Name), oneLine(v.Fault))
			case v.Withheld != "":
				a.printf("chain %s  %d records, %d revisions, %s; states not rebuilt: %s\n", oneLine(v.Name), v.Records, v.Rows, v.Digest, oneLine(v.Withheld))
			case v.Absent > 0:
				a.printf("ok    %s  %d records, %d revisions, %s; %s absent, which no state needs\n", oneLine(v.Name), v.Records, v.Rows, v.Digest, plural(v.Absent, "content"))
			case v.Rows > 0:
				a.printf("ok    %s  %d records, %d revisions, %s\n", oneLine(v.Name), v.Records, v.Rows, v.Digest)
			default:
				a.printf("ok    %s  %d records, %s\n", oneLine(v.Name), v.Records, v.Digest)
			}
		}
		a.printf("%d traces, %d wrong\n", len(results), bad)
		if setDigest != "" {
			a.printf("trace set %s\n", setDigest)
		}
	}
	if bad > 0 {
		return verdict(exitFail)
	}
	return nil
}
