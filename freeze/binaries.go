package freeze

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
)

// Binary is one build that may run under a freeze.
type Binary struct {
	Platform string            `json:"platform"` // os/arch
	SHA256   string            `json:"sha256"`   // hex, of the file
	Size     int64             `json:"size"`
	Go       string            `json:"go"`       // version of the toolchain
	Module   string            `json:"module"`   // main module and its version
	Sum      string            `json:"sum"`      // go.sum hash of the main module, "" from a checkout
	Settings map[string]string `json:"settings"` // build settings: VCS revision, flags, …
}

// selfPath opens the image that is running, also when another file has taken
// its name since.
const selfPath = "/proc/self/exe"

// Running is the binary of this process and the modules it was built from.
func Running() (Binary, map[string]string, error) {
	f, err := os.Open(selfPath)
	if err != nil {
		path, perr := os.Executable()
		if perr != nil {
			return Binary{}, nil, fmt.Errorf("find the running binary: %w", perr)
		}
		if f, err = os.Open(path); err != nil {
			return Binary{}, nil, fmt.Errorf("open the running binary: %w", err)
		}
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Binary{}, nil, errors.Join(errors.New("the running binary carries no build info; build it with the go command"), f.Close())
	}
	b, mods, err := describe(f, info)
	b.Platform = runtime.GOOS + "/" + runtime.GOARCH
	if err = errors.Join(err, f.Close()); err != nil {
		return Binary{}, nil, fmt.Errorf("running binary: %w", err)
	}
	return b, mods, nil
}

// ReadBinary reads a Go binary for any platform from a file. A file without
// build info is refused.
func ReadBinary(path string) (Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Binary{}, err
	}
	info, err := buildinfo.Read(f)
	if err != nil {
		return Binary{}, errors.Join(fmt.Errorf("%s: is no binary of the go command: %w", path, err), f.Close())
	}
	b, _, err := describe(f, info)
	if err = errors.Join(err, f.Close()); err != nil {
		return Binary{}, fmt.Errorf("%s: %w", path, err)
	}
	if b.Platform == "/" {
		return Binary{}, fmt.Errorf("%s: its build info names no GOOS and GOARCH", path)
	}
	return b, nil
}

func describe(f *os.File, info *debug.BuildInfo) (Binary, map[string]string, error) {
	h := sha256.New()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Binary{}, nil, err
	}
	n, err := io.Copy(h, f)
	if err != nil {
		return Binary{}, nil, fmt.Errorf("read: %w", err)
	}
	b := Binary{
		SHA256: hex.EncodeToString(h.Sum(nil)), Size: n, Go: info.GoVersion,
		Module: info.Main.Path + " " + info.Main.Version, Sum: info.Main.Sum, Settings: map[string]string{},
	}
	for _, s := range info.Settings {
		b.Settings[s.Key] = s.Value
	}
	b.Platform = b.Settings["GOOS"] + "/" + b.Settings["GOARCH"]
	mods := map[string]string{}
	for _, d := range info.Deps {
		v := d.Version + " " + d.Sum
		if d.Replace != nil {
			v += " replaced by " + d.Replace.Path + " " + d.Replace.Version + " " + d.Replace.Sum
		}
		mods[d.Path] = v
	}
	return b, mods, nil
}
