package freeze

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Sentinels of HashTrees.
var (
	// ErrChanged means that a file changed, appeared or vanished while the trees
	// were hashed, so that the digests describe no single state of them.
	ErrChanged = errors.New("changed while it was hashed; try again when nothing writes there")
	// ErrUnfreezable means that something in a tree cannot be frozen: a special
	// file, a name that collides, a link that leads outside.
	ErrUnfreezable = errors.New("cannot be frozen")
	// ErrPaths means that the lists of HashOptions name nothing that can be
	// hashed.
	ErrPaths = errors.New("freeze paths")
)

// HashOptions say what HashTrees covers and how.
type HashOptions struct {
	// Include lists files and folders relative to the root, with slashes; none
	// may lie inside another.
	Include []string
	// Exclude holds patterns of path.Match. One with a slash, which may stand in
	// front, is compared with the path of each file and folder, one without with
	// their base names; an excluded folder is left out whole. Folders .git and .qualify always are.
	Exclude []string
	// Cache lets files be taken as unchanged by size, times and inode. It is a
	// convenience while developing, no evidence: leave it nil before, during
	// and after a holdout, and every byte is read.
	Cache *Cache
	// Gone leaves out included paths that are not there or hold no file, in place
	// of refusing them: for comparing with what was there once.
	Gone bool

	// probe is called around each file in tests: "open" before, "read" after its
	// content was read, "listed" once after the first listing.
	probe func(op, name string) error
}

// HashTrees hashes the included files of a folder. The result describes one
// state of them: each file is checked before and after it is read, and all are
// listed again at the end; whatever changed in between is ErrChanged. What
// cannot be read or frozen is an error that names every such file.
//
//   - Symbolic links are not followed. A link is hashed as its target text, and
//     refused when the target is not itself covered.
//   - Names that are equal once case and Unicode form are ignored are refused:
//     they are one file on some systems.
//   - Content is hashed byte for byte; line ends are not translated.
//   - Whether a file may be executed is recorded, other permissions are not.
func HashTrees(ctx context.Context, dir string, o HashOptions) ([]Tree, error) {
	if o.probe == nil {
		o.probe = func(string, string) error { return nil }
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("freeze root: %w", err)
	}
	trees, err := hashTrees(ctx, root, o)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, err
	}
	return trees, nil
}

func hashTrees(ctx context.Context, root *os.Root, o HashOptions) ([]Tree, error) {
	before, err := list(ctx, root, o)
	if err != nil {
		return nil, err
	}
	if err := before.check(); err != nil {
		return nil, err
	}
	if err := o.probe("listed", ""); err != nil {
		return nil, err
	}
	if err := before.hash(ctx, root, o); err != nil {
		return nil, err
	}
	after, err := list(ctx, root, o)
	if err != nil {
		return nil, fmt.Errorf("list again: %w", err)
	}
	if err := before.same(after); err != nil {
		return nil, err
	}
	out := make([]Tree, 0, len(before.trees))
	for _, t := range before.trees {
		tree := Tree{Path: t.path, Files: make([]File, 0, t.to-t.from)}
		for i := t.from; i < t.to; i++ {
			tree.Files = append(tree.Files, before.nodes[i].file)
		}
		tree.H1 = tree.h1()
		out = append(out, tree)
	}
	return out, nil
}

// h1 is what dirhash.Hash1 gives for these files, from their digests: SHA-256
// over the lines "digest  name" in order of name.
func (t *Tree) h1() string {
	h := sha256.New()
	for i := range t.Files {
		_, _ = fmt.Fprintf(h, "%s  %s\n", t.Files[i].SHA256, t.Files[i].Name) // a hash takes every byte
	}
	return "h1:" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// mostFaults is how many faults of files an error lists.
const mostFaults = 50

// faults gathers errors and joins them in order.
type faults struct{ list []error }

func (f *faults) add(err error) { f.list = append(f.list, err) }

func (f *faults) err() error {
	slices.SortStableFunc(f.list, func(a, b error) int {
		switch x, y := a.Error(), b.Error(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	if more := len(f.list) - mostFaults; more > 0 {
		f.list = append(f.list[:mostFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(f.list...)
}

// chunk is how many files of one folder one worker hashes at a time.
const chunk = 64

// hash fills in the digests of all nodes, several folders at a time.
func (l *listing) hash(ctx context.Context, root *os.Root, o HashOptions) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	found := make([]faults, 0, len(l.nodes)/chunk+1)
	var jobs [][2]int
	for from := 0; from < len(l.nodes); {
		to := from + 1
		for to < len(l.nodes) && to-from < chunk && l.nodes[to].folder == l.nodes[from].folder {
			to++
		}
		jobs = append(jobs, [2]int{from, to})
		from = to
	}
	found = slices.Grow(found, len(jobs))[:len(jobs)]
	for i, j := range jobs {
		g.Go(func() error { return hashFolder(ctx, root, o, l.nodes[j[0]:j[1]], &found[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var all faults
	for _, f := range found {
		all.list = append(all.list, f.list...)
	}
	return all.err()
}

// hashFolder hashes files of one folder; what is wrong with one goes to found,
// an error ends the work as a whole.
func hashFolder(ctx context.Context, root *os.Root, o HashOptions, nodes []node, found *faults) (err error) {
	folder := nodes[0].folder
	dir, err := root.OpenRoot(folder)
	if err != nil {
		found.add(vanished(folder, err))
		return nil
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for i := range nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := nodes[i].hash(ctx, dir, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			found.add(err)
		}
	}
	return nil
}
