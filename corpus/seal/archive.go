package seal

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agentrooms/qualify/engine"
)

// manifestName is the first entry of the archive: the contents without payload.
const manifestName = "manifest.json"

// pack makes the archive of a corpus, always the same for the same contents and
// files.
func pack(c *Contents, files []file) ([]byte, error) {
	inside, err := engine.Canonical(c)
	if err != nil {
		return nil, fmt.Errorf("manifest of the sealed corpus: %w", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range append([]file{{manifestName, inside}}, files...) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.data)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.path, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return b.Bytes(), nil
}

// unpack reads an archive that pack could have made; any other is ErrFormat.
func unpack(archive []byte) (*Contents, []file, error) {
	var files []file
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: its archive: %w", ErrFormat, err)
		}
		if h.Typeflag != tar.TypeReg || h.Size > int64(len(archive)) { // a sparse file may claim any size
			return nil, nil, fmt.Errorf("%w: its archive: %q is no plain file", ErrFormat, h.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: its archive: %q: %w", ErrFormat, h.Name, err)
		}
		files = append(files, file{h.Name, data})
	}
	if len(files) == 0 || files[0].path != manifestName {
		return nil, nil, fmt.Errorf("%w: its archive does not begin with %s", ErrFormat, manifestName)
	}
	c := new(Contents)
	if err := engine.DecodeCanonical(files[0].data, c); err != nil {
		return nil, nil, fmt.Errorf("%w: %s in its archive: %w", ErrFormat, manifestName, err)
	}
	files = files[1:]
	again, err := pack(c, files)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !bytes.Equal(again, archive) {
		return nil, nil, fmt.Errorf("%w: its archive is not in the one form for its files", ErrFormat)
	}
	return c, files, nil
}
