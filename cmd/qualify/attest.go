package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/reports/attest"
)

func (a *app) attestCmd() *cobra.Command {
	return a.group("attest", "Signed attestations of verdicts", a.attestKeygenCmd(), a.attestSignCmd(), a.attestVerifyCmd())
}

// attestFault gives errors of package attest their exit codes where nothing is
// being verified.
func attestFault(err error) error {
	var own *exitError
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, attest.ErrRefused):
		return failf(exitRefused, "%w", err)
	case errors.Is(err, attest.ErrKey), errors.Is(err, attest.ErrStatement), errors.Is(err, attest.ErrSignature),
		errors.Is(err, attest.ErrFormat), errors.Is(err, attest.ErrExpired):
		return usagef("%w", err)
	}
	return err
}

func (a *app) attestKeygenCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "keygen -o FILE",
		Short: "Make a key pair to sign with",
		Long: `Make an Ed25519 key pair: the private key in FILE (PKCS #8 in PEM, readable by
you only), the public one in FILE.pub. Files that exist are never replaced. The
id of the key is derived from it: the fingerprint that SSH tools show for it.
Keep the private key out of the repository; give the public one, or its id, to
those who verify by a way they trust.`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return usagef("%sname the FILE of the key with -o%s", inCommand(c), seeHelp(c))
			}
			return a.keygen(out)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "`FILE` of the private key; the public one is FILE.pub")
	return c
}

func (a *app) keygen(path string) error {
	k, err := attest.Generate(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := k.PEM()
	if err != nil {
		return err
	}
	public, err := k.Public().PEM()
	if err != nil {
		return err
	}
	if err := createKeyPair(path, secret, public); err != nil {
		return err
	}
	a.printf("%s\n", k.Public().ID())
	a.talkf("private key in %s, public key in %s.pub", path, path)
	return nil
}

// createKeyPair writes a private key, readable by its owner only, and the public
// one beside it in path.pub: both, or neither.
func createKeyPair(path string, private, public []byte) error {
	if err := createKey(path, private, 0o600); err != nil {
		return err
	}
	if err := createKey(path+".pub", public, 0o644); err != nil {
		return errors.Join(err, os.Remove(path)) // half a pair is of no use
	}
	return nil
}

// createKey writes a new file; one that is there already is left alone.
func createKey(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return failf(exitRefused, "%s: is there already; a key is never replaced, name another file", path)
	case err != nil:
		return usagef("%s: %w", path, cause(err))
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}

const (
	mostKeyFile     = 1 << 16 // bytes of a file with a key or a checkpoint
	mostAttestation = 1 << 26 // bytes of an attestation
)

// readPrivateKeys reads private keys. Warnings name those that others can read.
func readPrivateKeys(paths []string) (keys []*attest.PrivateKey, warnings []string, err error) {
	for _, path := range paths {
		data, mode, err := readAtMost(path, mostKeyFile)
		if err != nil {
			return nil, nil, err
		}
		k, err := attest.ParsePrivate(data)
		if err != nil {
			return nil, nil, usagef("%s: %w", path, err)
		}
		if w := readableByOthers(path, mode); w != "" {
			warnings = append(warnings, w)
		}
		keys = append(keys, k)
	}
	return keys, warnings, nil
}

// readableByOthers warns of the file of a key that others can read; "" for none.
func readableByOthers(path string, mode fs.FileMode) string {
	if mode.Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return ""
	}
	return fmt.Sprintf("warning: %s can be read by others (mode %04o); chmod 600 it, and make a new key if somebody may have", path, mode.Perm())
}

func readPublicKeys(paths []string) ([]attest.PublicKey, error) {
	var keys []attest.PublicKey
	for _, path := range paths {
		data, _, err := readAtMost(path, mostKeyFile)
		if err != nil {
			return nil, err
		}
		k, err := attest.ParsePublic(data)
		if err != nil {
			return nil, usagef("%s: %w", path, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}
