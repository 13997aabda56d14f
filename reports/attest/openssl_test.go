package attest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestQ8_OpenSSLVerifies does what docs/attestations.md tells a reader without
// this tool to do: read the envelope as plain JSON, put the signed bytes
// together by hand, and let openssl verify them.
func TestQ8_OpenSSLVerifies(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl here: ", err)
	}
	if out, err := exec.CommandContext(t.Context(), openssl, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "OpenSSL 3") {
		t.Skipf("openssl is %q, which may not verify Ed25519 over raw input", out)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	k := signer(t, 1)
	public, err := k.Public().PEM()
	if err != nil {
		t.Fatal(err)
	}
	key := write("k.pub", public)
	for _, line := range bytes.Split(bytes.TrimSpace(fileOf(t, signed(t, claimOf(document(t)), k))), []byte("\n")) {
		var e struct {
			Payload, PayloadType string
			Signatures           []struct{ Sig string }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		body := payload(t, string(line))
		sig, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
		if err != nil {
			t.Fatal(err)
		}
		sigFile := write("sig", sig)
		const head = "DSSEv1 28 application/vnd.in-toto+json "
		length, err := json.Marshal(len(body))
		if err != nil {
			t.Fatal(err)
		}
		input := append(append([]byte(head), length...), ' ')
		for _, tc := range []struct {
			body []byte
			ok   bool
		}{{body, true}, {append(bytes.Clone(body), ' '), false}} {
			in := write("in", append(bytes.Clone(input), tc.body...))
			out, err := exec.CommandContext(t.Context(), openssl, "pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin", "-in", in, "-sigfile", sigFile).CombinedOutput()
			if (err == nil) != tc.ok {
				t.Errorf("want %v: %v\n%s", tc.ok, err, out)
			}
		}
	}
}
