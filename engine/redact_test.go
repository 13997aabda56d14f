package engine_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
)

func TestC12_SecretsInMessagesAreRedacted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"401: api_key=sk-123 is not valid":                     "401: api_key=[redacted] is not valid",
		`{"api-key": "abc def", "x": 1}`:                       `{"api-key": [redacted], "x": 1}`,
		"Incorrect API key provided: sk-proj-Ab_9":             "Incorrect API key provided: [redacted]",
		"password: hunter2, user: eve":                         "password: [redacted], user: eve",
		"?access_token=xyz&limit=5":                            "?access_token=[redacted]&limit=5",
		"client_secret='a b'":                                  "client_secret=[redacted]",
		"Authorization: Bearer eyJhbGciOi.J9":                  "Authorization: Bearer [redacted]",
		"dial postgres://eve:hunter2@db/x: refused":            "dial postgres://eve:[redacted]@db/x: refused",
		"OPENAI_API_KEY=abc":                                   "OPENAI_API_KEY=[redacted]",
		"key sk-123 was revoked":                               "key [redacted] was revoked",
		"max_output_tokens: 800 is above 512":                  "max_output_tokens: 800 is above 512",
		"HTTP 429: too many tokens in the last minute, wait 3": "HTTP 429: too many tokens in the last minute, wait 3",
		"unexpected token in the reply at byte 7":              "unexpected token in the reply at byte 7",
		"task-12 of desk-7 at http://localhost:8080/a":         "task-12 of desk-7 at http://localhost:8080/a",
	} {
		if got := engine.Redact(in); got != want {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestC12_RedactedValueIsGoneWhateverItIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"api_key", "API-KEY", "token", "Secret", "password", "auth_token"}).Draw(t, "name")
		sep := rapid.SampledFrom([]string{"=", ":", ": ", " = "}).Draw(t, "separator")
		value := rapid.StringMatching(`[A-Za-z0-9]{6,30}`).Draw(t, "value")
		rest := rapid.StringMatching(`[a-z ]{0,20}`).Draw(t, "rest")
		got := engine.Redact("error: " + name + sep + value + " " + rest)
		if strings.Contains(got, value) && !strings.Contains(rest, value) {
			t.Fatalf("%q keeps the value", got)
		}
		if again := engine.Redact(got); again != got {
			t.Fatalf("redacted twice: %q, then %q", got, again)
		}
	})
}
