package trace

import (
	"bytes"

	"github.com/agentrooms/qualify/engine"
)

const digestMember = `"digest":"`

// lineDigest digests a line, the canonical form of a record, as the record
// without its digest field would be. The field is the one member of that name
// at the top of the record; the digest is the stated one. ok is false when the
// line has no such member.
func lineDigest(line []byte, stated string) (digest string, at int, ok bool) {
	if at = topMember(line, digestMember); at < 0 {
		return "", -1, false
	}
	from, to := at, at+len(digestMember)+len(stated)+1
	if to >= len(line) || string(line[at+len(digestMember):to-1]) != stated || line[to-1] != '"' {
		return "", -1, false
	}
	switch {
	case line[to] == ',':
		to++
	case line[from-1] == ',':
		from--
	}
	return engine.DigestOf(line[:from], line[to:]), at + len(digestMember), true
}

// topMember is where a member of the object in line begins, -1 when it has
// none whose text begins so. The line is canonical JSON.
func topMember(line []byte, begins string) int {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			// At depth 1 a text after '{' or ',' is the name of a member.
			if depth == 1 && line[i-1] != ':' && bytes.HasPrefix(line[i:], []byte(begins)) {
				return i
			}
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' {
					i++
				}
			}
		}
	}
	return -1
}
