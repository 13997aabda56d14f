package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

func (a *app) traceCmd() *cobra.Command {
	return a.group("trace", "Traces in files and in the store",
		a.traceListCmd(), a.traceShowCmd(), a.traceVerifyCmd(), a.traceExportCmd())
}

// traceLine is one trace in a list.
type traceLine struct {
	Key         string `json:"key"`
	Mode        string `json:"mode,omitempty"`
	Status      string `json:"status,omitempty"`
	Termination string `json:"termination"`
	Records     int    `json:"records,omitempty"`
	Digest      string `json:"digest"`
	File        string `json:"file,omitempty"`
}

func (a *app) traceListCmd() *cobra.Command {
	var campaign string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [FILE...]",
		Short: "List the traces of a campaign in the store, or of files",
		RunE: func(c *cobra.Command, files []string) error {
			lines := []traceLine{}
			for _, path := range files {
				info, err := verifyFile(path)
				if err != nil {
					return err
				}
				lines = append(lines, traceLine{
					Key: keyOf(info.Header), Mode: info.Header.Mode, Termination: info.Termination,
					Records: info.Records, Digest: info.Digest, File: path,
				})
			}
			if len(files) == 0 {
				err := a.withTrials(c.Context(), campaign, func(_ store.Store, _ store.Campaign, trials []store.Trial) error {
					for i := range trials {
						t := &trials[i]
						lines = append(lines, traceLine{Key: t.Key, Status: t.Status, Termination: t.Termination, Digest: t.TraceDigest})
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			if asJSON {
				return a.printJSON(struct {
					Schema schemaRef   `json:"schema"`
					Traces []traceLine `json:"traces"`
				}{schemaRef{"qualify.traces", 1}, lines})
			}
			a.table("trial\tstatus\ttermination\tdigest", func(row func(...string)) {
				for _, l := range lines {
					status := l.Status
					if l.File != "" {
						status = strconv.Itoa(l.Records) + " records"
					}
					row(l.Key, status, orDash(l.Termination), orDash(l.Digest))
				}
			})
			return nil
		},
	}
	c.Flags().StringVar(&campaign, "campaign", "", "campaign `NAME` or id (the newest)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) traceShowCmd() *cobra.Command {
	var campaign string
	var full bool
	c := &cobra.Command{
		Use:   "show FILE|TRIAL",
		Short: "Print one trace as a timeline",
		Long: `Print one trace as a timeline: a file, or a trial of the store as
case/arm/trial. Times are trial time in seconds.`,
		Args: exactArgs("FILE|TRIAL"),
		RunE: func(c *cobra.Command, args []string) error {
			content, err := a.traceContent(c.Context(), args[0], campaign)
			if err != nil {
				return err
			}
			return a.showTrace(args[0], strings.NewReader(string(content)), full)
		},
	}
	c.Flags().StringVar(&campaign, "campaign", "", "campaign `NAME` or id of a trial (the newest)")
	c.Flags().BoolVar(&full, "full", false, "print whole texts and bodies")
	return c
}

func (a *app) traceExportCmd() *cobra.Command {
	var campaign, out, format string
	c := &cobra.Command{
		Use:   "export [TRIAL...]",
		Short: "Write traces of the store to stdout, or as files into a folder",
		Long: `Write the traces of a campaign: the trials named as case/arm/trial, or all.
One trace goes to stdout; with -o each goes to FOLDER/case/arm/trial.jsonl.`,
		RunE: func(c *cobra.Command, keys []string) error {
			if format != "jsonl" {
				return usagef("--format %q: this version writes jsonl", format)
			}
			if out == "" && len(keys) != 1 {
				return usagef("%sname one TRIAL, or a folder with -o%s", inCommand(c), seeHelp(c))
			}
			return a.withTrials(c.Context(), campaign, func(s store.Store, camp store.Campaign, trials []store.Trial) error {
				if len(keys) == 0 {
					for i := range trials {
						if trials[i].TraceDigest != "" {
							keys = append(keys, trials[i].Key)
						}
					}
				}
				for _, key := range keys {
					content, err := storedTrace(c.Context(), s, camp, key)
					if err != nil {
						return err
					}
					if out == "" {
						_, err = a.out.Write(content)
					} else {
						err = writeTrace(out, key, content)
					}
					if err != nil {
						return err
					}
				}
				if out != "" {
					a.talkf("%d traces of campaign %s in %s", len(keys), camp.Name, out)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&campaign, "campaign", "", "campaign `NAME` or id (the newest)")
	c.Flags().StringVarP(&out, "output", "o", "", "`FOLDER` to write files into")
	c.Flags().StringVar(&format, "format", "jsonl", "`FORMAT` of the traces: jsonl")
	return c
}

// traceContent reads a trace from a file or, when no such file exists and the
// name has the form of a trial key, from the store.
func (a *app) traceContent(ctx context.Context, name, campaign string) ([]byte, error) {
	_, statErr := os.Stat(name)
	if statErr == nil || !isTrialKey(name) {
		f, err := openInput(name)
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(f)
		return content, errors.Join(err, f.Close())
	}
	var content []byte
	err := a.withTrials(ctx, campaign, func(s store.Store, camp store.Campaign, _ []store.Trial) error {
		var err error
		content, err = storedTrace(ctx, s, camp, name)
		return err
	})
	return content, err
}

// withTrials opens the store and finds a campaign with its trials.
func (a *app) withTrials(ctx context.Context, campaign string, f func(store.Store, store.Campaign, []store.Trial) error) error {
	return a.withStore(ctx, func(s store.Store) error {
		camp, err := findCampaign(ctx, s, campaign)
		if err != nil {
			return err
		}
		trials, err := s.Trials(ctx, camp.ID)
		if err != nil {
			return err
		}
		return f(s, camp, trials)
	})
}

// storedTrace reads the exported trace of a trial.
func storedTrace(ctx context.Context, s store.Records, camp store.Campaign, key string) ([]byte, error) {
	_, content, err := s.Trace(ctx, camp.ID, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, usagef("campaign %s (%s) has no trace of trial %q; qualify trace list shows what it has", camp.Name, camp.ID, key)
	}
	return content, err
}

// isTrialKey reports whether s has the form case/arm/trial.
func isTrialKey(s string) bool {
	parts := strings.Split(s, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return false
	}
	_, err := strconv.ParseUint(parts[2], 10, 31)
	return err == nil
}

func keyOf(h trace.Header) string { return trace.Key(h.Case, h.Arm, h.Trial) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// writeTrace writes FOLDER/case/arm/trial.jsonl whole or not at all.
func writeTrace(folder, key string, content []byte) error {
	rel := filepath.FromSlash(key) + ".jsonl"
	if !filepath.IsLocal(rel) {
		return failf(exitInternal, "trial key %q is no relative path", key)
	}
	path := filepath.Join(folder, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return usagef("%w", err)
	}
	return writeFile(path, content)
}
