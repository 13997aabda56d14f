package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

const (
	// IndexName is the path of the index, the last entry of a bundle.
	IndexName = "bundle.json"
	// Bodies is the withheld word for what lies under records/bodies/.
	Bodies = "bodies"

	schema     = "qualify/bundle/v1"
	bodiesPath = "records/bodies"
)

// index is bundle.json. Its lists are never nil.
type index struct {
	Parts    []part   `json:"parts"`
	Schema   string   `json:"schema"`
	Withheld []string `json:"withheld"`
}

// part is one entry of the index.
type part struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hex
	Size   int64  `json:"size"`
}

// newIndex is the index of no parts.
func newIndex(withheld []string) (*index, error) {
	x := &index{Parts: []part{}, Schema: schema, Withheld: append([]string{}, withheld...)}
	return x, x.checkWithheld()
}

// checkWithheld refuses unknown and repeated words.
func (x *index) checkWithheld() error {
	for i, w := range x.Withheld {
		if w != Bodies {
			return fmt.Errorf("%w: withheld %q is not known; %q is", ErrFormat, w, Bodies)
		}
		if i > 0 {
			return fmt.Errorf("%w: withheld %q is there twice", ErrFormat, w)
		}
	}
	return nil
}

// add notes a part; it refuses one that is said to be withheld.
func (x *index) add(p part) error {
	if x.withholds(p.Path) {
		return fmt.Errorf("it is there and said to be withheld (%s)", Bodies)
	}
	x.Parts = append(x.Parts, p)
	return nil
}

func (x *index) withholds(path string) bool {
	return slices.Contains(x.Withheld, Bodies) && (path == bodiesPath || strings.HasPrefix(path, bodiesPath+"/"))
}

// encode is bundle.json.
func (x *index) encode() ([]byte, error) {
	b, err := engine.Canonical(x)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", IndexName, err)
	}
	return append(b, '\n'), nil
}

// longest bounds what is read as the index of these parts: what is right, and as
// much more as lets a small bundle be told what its index names too much.
func longest(parts []part) (int64, error) {
	b, err := (&index{Parts: parts, Schema: schema, Withheld: []string{Bodies}}).encode()
	return int64(len(b)) + 64<<10, err
}

// readIndex reads bundle.json and refuses it unless it is, byte for byte, the
// index of the parts that were found.
func readIndex(data []byte, found []part) (*index, error) {
	body, ok := bytes.CutSuffix(data, []byte("\n"))
	if !ok {
		return nil, errors.New("it does not end in a line end")
	}
	x := new(index)
	if err := engine.DecodeCanonical(body, x); err != nil {
		return nil, err
	}
	if x.Schema != schema {
		return nil, fmt.Errorf("its schema is %q; this is for %q", x.Schema, schema)
	}
	if x.Parts == nil || x.Withheld == nil {
		return nil, errors.New("parts or withheld is null; an empty list is []")
	}
	if err := x.checkWithheld(); err != nil {
		return nil, err
	}
	for i := range max(len(x.Parts), len(found)) {
		switch {
		case i >= len(x.Parts):
			return nil, fmt.Errorf("it does not name %q, which is there", found[i].Path)
		case i >= len(found):
			return nil, fmt.Errorf("it names %q, which is not there", x.Parts[i].Path)
		}
		is, must := x.Parts[i], found[i]
		switch {
		case is.Path < must.Path:
			return nil, fmt.Errorf("it names %q, which is not there", is.Path)
		case is.Path > must.Path:
			return nil, fmt.Errorf("it does not name %q, which is there", must.Path)
		case is.Size != must.Size:
			return nil, fmt.Errorf("it says that %q has %d bytes; they are %d", is.Path, is.Size, must.Size)
		case is.SHA256 != must.SHA256:
			return nil, fmt.Errorf("it says that the SHA-256 of %q is %s; it is %s", is.Path, is.SHA256, must.SHA256)
		case x.withholds(is.Path):
			return nil, fmt.Errorf("it says that %s are withheld; %q is there", Bodies, is.Path)
		}
	}
	x.Parts = found // equal, and in memory once
	return x, nil
}
