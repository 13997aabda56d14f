package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/reports/bundle"
)

// Parts of a bundle.
const (
	partCorpus  = "corpus/"     // case files, with their gold under corpus/gold/
	partSealed  = "corpus.age"  // in place of them: the corpus as qualify corpus seal wrote it
	partPolicy  = "policy.yaml" // that judged
	partRecords = "records/"    // of the campaign: package archive
	partReport  = "report.md"
	partVerdict = "verdict.json" // canonical JSON of what qualify gate --json prints
)

// withheldBodies is the word for a bundle without prompts, replies and tool
// results.
const withheldBodies = bundle.Bodies

// mostBundle bounds what a bundle unpacks to, in bytes.
const mostBundle = 64 << 30

// bundleStore is the read-only store over a bundle. Corpus and policy come from
// the bundle too, where the command names none.
type bundleStore struct {
	*archive.Store
	bundle *bundle.Bundle
	path   string
	close  func() error
	held   *cases // of bundledCases, once read
}

// openBundle opens a bundle, compressed or not. What is wrong with its bytes is
// bundle.ErrFormat, what is wrong with its records store.ErrCorrupt.
func openBundle(name string) (*bundleStore, error) {
	b, done, err := readBundle(name)
	if err != nil {
		return nil, err
	}
	records, err := archive.Open(recordFiles{b})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bundle %s: %w", name, err), done())
	}
	return &bundleStore{Store: records, bundle: b, path: name, close: done}, nil
}

// openBundleStore opens the bundle of --store.
func openBundleStore(name string, access storeAccess) (store.Store, error) {
	if access != existing {
		return nil, neverWritten(name)
	}
	b, err := openBundle(name)
	if err != nil {
		if bundleFault(err) {
			err = usagef("%w; get the file again, or name one that qualify report bundle wrote", err)
		}
		return nil, err
	}
	return b, nil
}

func neverWritten(name string) error {
	return failf(exitRefused, "--store bundle:%s: a bundle is never written to; name a store with sqlite:PATH", name)
}

// readBundle checks the container. Call done when the bundle is not needed any
// more.
func readBundle(name string) (b *bundle.Bundle, done func() error, err error) {
	in, err := openInput(name)
	if err != nil {
		return nil, nil, err
	}
	tar := in
	done = in.Close
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	packed, err := isZstd(in)
	if err != nil {
		return nil, done, usagef("%s: %w", name, err)
	}
	if packed {
		if tar, done, err = unpack(in, name); err != nil {
			return nil, done, err
		}
	}
	info, err := tar.Stat()
	if err != nil {
		return nil, done, err
	}
	if b, err = bundle.Open(tar, info.Size()); err != nil {
		return nil, done, fmt.Errorf("bundle %s: %w", name, err)
	}
	return b, done, nil
}

// isZstd looks for the magic number of zstd.
func isZstd(f io.ReaderAt) (bool, error) {
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.Equal(magic[:], []byte{0x28, 0xb5, 0x2f, 0xfd}), nil
}

// unpack writes the tar of a compressed bundle to a temporary file. It closes in.
func unpack(in *os.File, name string) (tar *os.File, done func() error, err error) {
	tar, done, err = tempFile()
	if err != nil {
		return nil, in.Close, usagef("%s is unpacked to the folder for temporary files, and %w; set TMPDIR to a folder that takes files", name, err)
	}
	if err = bundle.Decompress(tar, in, mostBundle); err != nil {
		err = fmt.Errorf("bundle %s: %w", name, err)
	}
	return tar, done, errors.Join(err, in.Close())
}

// tempFile makes a temporary file, which is gone when done was called, or the
// process ended where the system allows to remove an open file.
func tempFile() (f *os.File, done func() error, err error) {
	f, err = os.CreateTemp("", "qualify-bundle-*")
	if err != nil {
		return nil, nil, err
	}
	gone := os.Remove(f.Name()) == nil
	return f, func() error {
		err := f.Close()
		if !gone {
			err = errors.Join(err, os.Remove(f.Name()))
		}
		return err
	}, nil
}

// recordFiles are the records of a bundle as package archive reads them.
type recordFiles struct{ bundle *bundle.Bundle }

// Names implements archive.Files.
func (f recordFiles) Names() []string {
	var out []string
	for _, name := range f.bundle.Names() {
		if rest, ok := strings.CutPrefix(name, partRecords); ok {
			out = append(out, rest)
		}
	}
	return out
}

// ReadFile implements archive.Files.
func (f recordFiles) ReadFile(name string) ([]byte, error) {
	return f.bundle.ReadFile(partRecords + name)
}

// Close implements store.Store.
func (b *bundleStore) Close() error { return errors.Join(b.Store.Close(), b.close()) }

// only is the campaign that the bundle is about. Of others it knows no more than
// what they drew on the same ceiling.
func (b *bundleStore) only(ctx context.Context) (store.Campaign, error) {
	return b.Campaign(ctx, b.ID())
}

// find is findCampaign in a bundle.
func (b *bundleStore) find(ctx context.Context, which string) (store.Campaign, error) {
	c, err := b.only(ctx)
	if err == nil && which != "" && which != c.ID && which != c.Name {
		err = usagef("bundle %s is of campaign %s (%s), not of %q", b.path, c.Name, c.ID, which)
	}
	return c, err
}

// listedCampaigns lists the campaigns that can be looked into, oldest first.
func listedCampaigns(ctx context.Context, s store.Records) ([]store.Campaign, error) {
	b, ok := s.(*bundleStore)
	if !ok {
		return s.Campaigns(ctx, "")
	}
	c, err := b.only(ctx)
	return []store.Campaign{c}, err
}

// bundledCases are the cases of the bundle with their gold, read once.
func (a *app) bundledCases(b *bundleStore) (_ *cases, err error) {
	if b.held == nil {
		b.held, err = a.readBundledCases(b)
	}
	return b.held, err
}

func (a *app) readBundledCases(b *bundleStore) (*cases, error) {
	place := "of bundle " + b.path
	if _, err := b.bundle.Stat(partSealed); err == nil {
		data, err := b.bundle.ReadFile(partSealed)
		if err != nil {
			return nil, err
		}
		sealed, err := a.unseal(place, data)
		if err != nil {
			return nil, err
		}
		return casesIn(place, sealed.Files, sealed)
	}
	tree, err := fs.Sub(b.bundle, path.Clean(partCorpus))
	if err != nil {
		return nil, err
	}
	return casesIn(place, tree, nil)
}

// policy is the policy of the bundle.
func (b *bundleStore) policy() (*gate.Policy, error) {
	data, err := b.bundle.ReadFile(partPolicy)
	if err != nil {
		return nil, usagef("bundle %s: %w", b.path, err)
	}
	p, err := gate.Parse(partPolicy, data)
	if err != nil {
		return nil, usagef("bundle %s: %w", b.path, err)
	}
	return p, nil
}

// registered is the policy of the bundle where it is the one that the campaign
// registered.
func (b *bundleStore) registered(want *campaigns.RegisteredPolicy) (*gate.Policy, error) {
	p, err := b.policy()
	switch {
	case err != nil:
		return nil, err
	case p.Digest() != want.Digest:
		return nil, usagef("bundle %s: its policy is %s, and the campaign registered %s, %s: name that one with --policy", b.path, p.Digest(), want.Name, want.Digest)
	}
	return p, nil
}

// corpusOf is the corpus to judge by: the named one, or that of a bundle where
// the command names none.
func (a *app) corpusOf(s store.Records, name string) (*cases, error) {
	if b, ok := s.(*bundleStore); ok && name == builtinName {
		return a.bundledCases(b)
	}
	return a.loadCases(name, ".")
}
