package seal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/agentrooms/qualify/engine"
)

// FuzzManifest: no bytes make the reader panic, and what it takes for a manifest
// is written in one way only.
func FuzzManifest(f *testing.F) {
	no := `"sha256:` + "0000000000000000000000000000000000000000000000000000000000000000" + `"`
	f.Add([]byte(`{"digest":` + no + `,"files":[{"path":"f/c.yaml","sha256":` + no + `,"size":1}],"lint":{"cases":1,"findings":1,"rules":{"plan":1}},` +
		`"payload":{"sha256":` + no + `,"size":1},"schema":"qualify/sealed-corpus/v1","splits":{"dev":{"cases":{"c":` + no + `},"digest":` + no + `,"gold":{"c":` + no + `}}}}`))
	f.Add([]byte(`{"schema":"qualify/sealed-corpus/v1","splits":null}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseManifest(line)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v", err)
			}
			return
		}
		if again, err := engine.Canonical(m); err != nil || !bytes.Equal(again, line) {
			t.Fatalf("%q is read, and written as %q (%v)", line, again, err)
		}
		if len(m.Cases()) == 0 {
			t.Fatal("a manifest without cases")
		}
	})
}

// FuzzArchive: no bytes make the reader panic, and what it unpacks is packed to
// the same bytes.
func FuzzArchive(f *testing.F) {
	for _, files := range [][]file{nil, {{"f/c.yaml", []byte("a: b\n")}, {"gold/f/c.yaml", nil}}} {
		archive, err := pack(&Contents{Schema: Schema}, files)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive)
		f.Add(archive[:len(archive)-1])
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		c, files, err := unpack(archive)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v", err)
			}
			return
		}
		if again, err := pack(c, files); err != nil || !bytes.Equal(again, archive) {
			t.Fatalf("unpacked and packed again: %v", err)
		}
	})
}
