package main

import (
	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/reports"
)

func (a *app) scoreCmd() *cobra.Command {
	var format, effects, arm string
	var asJSON bool
	c := &cobra.Command{
		Use:   "score FILE...",
		Short: "Score recorded traces of a supported format",
		Long: `Score recorded traces of the tau-bench format: a JSON array of records with
task_id, trial, reward, info and traj. Files of one arm are pooled; the arm is
the file name without its last extension, or --arm. An effect profile says which
tools write; without one that fits, writes and effects are not evaluable.`,
		Args: someArgs("FILE"),
		RunE: func(c *cobra.Command, paths []string) error {
			profile, err := evaluator.LoadEffects(effects)
			if err != nil {
				return usagef("--effects: %w", err)
			}
			files := make([]*trace.File, len(paths))
			for i, path := range paths {
				if files[i], err = trace.ImportFile(path, format); err != nil {
					return usagef("%w", err)
				}
			}
			doc, err := evaluator.ScoreRecorded(files, evaluator.ScoreOptions{Tool: toolName, Arm: arm, Effects: profile})
			if err != nil {
				return usagef("%w", err)
			}
			if asJSON {
				return a.printJSON(doc)
			}
			return reports.ScoreTable(a.out, doc)
		},
	}
	c.Flags().StringVar(&format, "format", trace.FormatAuto, "`FORMAT` of the files: auto, tau-bench")
	c.Flags().StringVar(&effects, "effects", evaluator.EffectsAuto, "effect `PROFILE`: a file, a built-in name, none, or auto")
	c.Flags().StringVar(&arm, "arm", "", "`NAME` of the arm that all files belong to")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
