package reports

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes foreign text safe for one line of a terminal: control
// characters, invisible formatting (bidirectional overrides among it), line
// and paragraph separators and invalid UTF-8 become visible escapes.
func Clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x80 && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// mostRunes bounds a name at the head of a column.
const mostRunes = 60

// cell is Clean for the head of a column, cut after mostRunes characters.
func cell(s string) string {
	r := []rune(Clean(s))
	if len(r) <= mostRunes {
		return string(r)
	}
	return string(r[:mostRunes]) + "…"
}
