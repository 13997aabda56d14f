package reports

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostRunes bounds a foreign text in a table.
const mostRunes = 120

// Clean makes foreign text safe for one line of a terminal: control
// characters, invisible formatting (bidirectional overrides among it), line
// and paragraph separators and invalid UTF-8 become visible escapes, and the
// text is cut after 120 characters.
func Clean(s string) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); n++ {
		if n == mostRunes {
			b.WriteString("…")
			break
		}
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
