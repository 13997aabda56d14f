package reports

import (
	"fmt"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// runFreeze is the line about freeze and holdout of a campaign.
func runFreeze(f *evaluator.RunFreeze) string {
	if f == nil {
		return "no freeze, and no holdout was opened"
	}
	s := fmt.Sprintf("freeze: %s; holdout openings: %s", Clean(f.ID), openings(f))
	if f.Reopen != "" {
		s += "; opened again: " + Clean(f.Reopen)
	}
	switch {
	case len(f.Void) > 0:
		s += fmt.Sprintf("; VOID: %s, which enter no figure", plural(len(f.Void), "result", "results"))
	case f.Verified:
		s += "; verified before, between batches and after"
	default:
		s += "; not verified to the end"
	}
	return s
}

// openings is the count of openings in the log that has it.
func openings(f *evaluator.RunFreeze) string {
	all := ""
	if f.AllOpenings != f.Openings {
		all = fmt.Sprintf(" (%d under any freeze)", f.AllOpenings)
	}
	return fmt.Sprintf("%d%s in log of %s, head %s", f.Openings, all, plural(f.Rows, "row", "rows"), strings.TrimSpace(Clean(f.Head)))
}
