package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/attest"
)

// subjectFlags name what is released.
type subjectFlags struct {
	artifacts, subjects []string
}

func (f *subjectFlags) add(c *cobra.Command, artifact, subject string) {
	c.Flags().StringArrayVar(&f.artifacts, "artifact", nil, artifact)
	c.Flags().StringArrayVar(&f.subjects, "subject", nil, subject)
}

// read hashes the files and parses the digests.
func (f *subjectFlags) read() ([]attest.Resource, error) {
	var out []attest.Resource
	used := map[string]bool{}
	for _, path := range f.artifacts {
		sum, err := hashFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		if used[name] { // the same name in another folder
			name = filepath.ToSlash(filepath.Clean(path))
		}
		used[name] = true
		out = append(out, attest.Resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	for _, text := range f.subjects {
		name, digest, ok := cutLast(text, "=")
		alg, hexed, ok2 := strings.Cut(digest, ":")
		if !ok || !ok2 || name == "" {
			return nil, usagef("--subject %q: write NAME=ALGORITHM:HEX; algorithms are %s", text, strings.Join(attest.Algorithms(), ", "))
		}
		out = append(out, attest.Resource{Name: name, Digest: map[string]string{alg: hexed}})
	}
	if len(out) == 0 {
		return nil, nil
	}
	if err := attest.CheckSubjects(out); err != nil {
		return nil, usagef("%w", err)
	}
	return out, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func hashFile(path string) (string, error) {
	f, err := openInput(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", usagef("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// manifestOf is the manifest of the freeze that a verdict names; nil without.
func (a *app) manifestOf(ctx context.Context, doc *gate.Document, sealLog string) (*freeze.Manifest, error) {
	if doc.Freeze.ID == "" {
		return nil, nil
	}
	f, _, err := a.findFreeze(ctx, doc.Freeze.ID, sealLog)
	if err != nil {
		return nil, freezeFault(fmt.Errorf("freeze of the verdict: %w", err))
	}
	return f.Manifest, nil
}
