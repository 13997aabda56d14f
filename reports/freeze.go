package reports

import (
	"bytes"
	"fmt"

	"github.com/agentrooms/qualify/evaluator"
)

// writeFreeze writes the line about freeze and holdout of a campaign for a
// terminal.
func writeFreeze(b *bytes.Buffer, f *evaluator.RunFreeze) {
	text := runFreeze(f)
	if f == nil {
		text = "freeze: none; no holdout was opened"
	}
	wrap(b, text)
}

// runFreeze is the line about freeze and holdout of a campaign.
func runFreeze(f *evaluator.RunFreeze) string {
	if f == nil {
		return "no freeze, and no holdout was opened"
	}
	s := fmt.Sprintf("freeze: %s; holdout openings: %d%s", Clean(f.ID), f.Openings, logWords(&f.Openings, f.AllOpenings, f.Rows, f.Head))
	if f.Reopen != "" {
		s += "; opened again: " + Clean(f.Reopen)
	}
	switch {
	case len(f.Void) > 0:
		s += voidWords(len(f.Void))
	case f.Verified:
		s += "; verified before, between batches and after"
	default:
		s += "; not verified to the end"
	}
	return s
}

// logWords tell of the log that has a count of openings: all of them where the
// count is another, its rows and head.
func logWords(openings *int, all, rows int, head string) string {
	others := ""
	if openings == nil || *openings != all {
		others = fmt.Sprintf(" (%d under any freeze)", all)
	}
	return fmt.Sprintf("%s in log of %s, head %s", others, plural(rows, "row", "rows"), Clean(head))
}

func voidWords(n int) string {
	return fmt.Sprintf("; VOID: %s, which enter no figure", plural(n, "result", "results"))
}
