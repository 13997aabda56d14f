package planner

import (
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
)

// Codes of issues: the closed set of R27.
const (
	IssueFormat         = "format"
	IssueUnknownField   = "unknown_field"
	IssueIDConflict     = "id_conflict"
	IssueReuse          = "unresolved_reuse"
	IssueCycle          = "cycle"
	IssueParticipant    = "unknown_participant"
	IssueUncovered      = "uncovered_criterion"
	IssueActionLevel    = "action_level"
	issueTextTruncation = "…"
)

// repairable reports whether every issue is of a class that R26 lets the
// reasoner try again: the form of the envelope and task identities. One issue
// of any other class ends interpretation at once.
func repairable(issues []engine.PlanIssue) bool {
	for _, i := range issues {
		switch i.Code {
		case IssueFormat, IssueUnknownField, IssueIDConflict, IssueReuse:
		default:
			return false
		}
	}
	return len(issues) > 0
}

// bounded cuts issues to the bounds of R27: at most 8, at most 300 characters
// each, at most 2 KiB together.
func bounded(issues []engine.PlanIssue) []engine.PlanIssue {
	var out []engine.PlanIssue
	total := 0
	for _, i := range issues {
		if len(out) == maxIssues {
			break
		}
		i.Step = cutBytes(i.Step, maxKeyLen)
		i.Text = cutRunes(i.Text, maxIssueText)
		total += len(i.Code) + len(i.Step) + len(i.Text)
		if total > maxIssueBytes {
			break
		}
		out = append(out, i)
	}
	return out
}

// cutRunes cuts s to at most n characters of valid UTF-8.
func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + issueTextTruncation
}

// cutBytes cuts s to at most n bytes at a character boundary.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len(issueTextTruncation)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + issueTextTruncation
}
