package reports

import (
	"net/url"
	"strconv"
	"strings"
)

// markup is what has a meaning inside a line of GitHub-flavoured Markdown.
const markup = "\\`*_{}[]<>|~&#!$"

// md is Clean for Markdown: every character that could format, link, embed
// HTML or end a cell is escaped, and addresses do not become links.
func md(s string) string {
	var b strings.Builder
	for _, r := range Clean(s) {
		if r < 0x80 && strings.ContainsRune(markup, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	out := strings.ReplaceAll(b.String(), "://", "\\://")
	out = strings.ReplaceAll(out, "www.", "www\\.")
	return strings.ReplaceAll(out, "@", "&#64;")
}

// mdCode is s as code; it can hold no backtick and ends no cell.
func mdCode(s string) string {
	return "`" + strings.ReplaceAll(strings.ReplaceAll(Clean(s), "`", "'"), "|", `\|`) + "`"
}

// traceLink links a trace line, written case/arm/trial:line, to the file that
// qualify trace export -o traces writes.
func traceLink(at string) string {
	i := strings.LastIndexByte(at, ':')
	if i < 0 {
		return md(at)
	}
	if _, err := strconv.ParseUint(at[i+1:], 10, 31); err != nil {
		return md(at)
	}
	parts := strings.Split(at[:i], "/")
	for j := range parts {
		parts[j] = url.PathEscape(parts[j])
	}
	// PathEscape keeps what could end the link or be an entity or a formula.
	path := strings.NewReplacer("(", "%28", ")", "%29", "&", "%26", "$", "%24").Replace(strings.Join(parts, "/"))
	return "[" + md(at) + "](traces/" + path + ".jsonl#L" + at[i+1:] + ")"
}
