package engine

import (
	"regexp"
)

// Secrets in messages of providers, tools and drivers: a value after the name
// of a secret (C12), an authorization header, a key by its usual form.
var (
	secretValue = regexp.MustCompile(`(?i)(\b[a-z0-9_-]*(?:api[ _-]?key|token|secret|password)\b["']?(?:\s+provided)?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s"',;&]+)`)
	bearerValue = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}`)
	userInfo    = regexp.MustCompile(`(://[^/\s:@]*:)[^@\s/]+@`)
	keyByForm   = regexp.MustCompile(`\b(?:sk|pk|rk)-[A-Za-z0-9_-]{3,}`)
)

// redacted stands where a secret stood.
const redacted = "[redacted]"

// Redact replaces what looks like a secret in a message from outside, so that
// it can be stored and shown (C12). It never fails and does nothing to a
// message without one; redacting twice changes nothing more.
func Redact(s string) string {
	s = secretValue.ReplaceAllString(s, "${1}"+redacted)
	s = bearerValue.ReplaceAllString(s, "${1}"+redacted)
	s = userInfo.ReplaceAllString(s, "${1}"+redacted+"@")
	return keyByForm.ReplaceAllString(s, redacted)
}
