package routing

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// References lists the @references of a text as written, without the @, in
// order of first appearance and distinct under case folding (C7). A reference
// starts with @ at the start of the text or after white space; its first
// character is a letter or digit of any script, then letters, digits and the
// characters . _ and - follow. Trailing dots end a sentence and are no part of
// it.
func References(text string) []string {
	var refs []string
	seen := map[string]bool{}
	atStart := true
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r != '@' || !atStart {
			atStart = unicode.IsSpace(r)
			i += size
			continue
		}
		i += size
		n := referenceLen(text[i:])
		ref := strings.TrimRight(text[i:i+n], ".")
		if key := fold(ref); ref != "" && !seen[key] {
			seen[key] = true
			refs = append(refs, ref)
		}
		i += n
		atStart = false
	}
	return refs
}

// IsReference reports whether s, written after an @, is captured whole.
func IsReference(s string) bool {
	return s != "" && referenceLen(s) == len(s) && !strings.HasSuffix(s, ".")
}

// referenceLen is the length in bytes of the reference that s starts with.
func referenceLen(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		if n > 0 {
			word = word || r == '.' || r == '_' || r == '-'
		}
		if !word {
			break
		}
		n += size
	}
	return n
}

// fold maps every rune to the smallest of its simple case variants, so that
// two spellings that differ in case only are one.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
			least = min(least, v)
		}
		return least
	}, s)
}
