package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version of this program, as in CHANGELOG.md.
const version = "0.1.0"

// toolName is how documents name the program that made them.
const toolName = "qualify " + version

// buildInfo says which code is running.
type buildInfo struct {
	Version  string `json:"version"`
	Module   string `json:"module"`           // module version as built, "(devel)" from a checkout
	Sum      string `json:"sum,omitempty"`    // go.sum hash of the module, when built from the module cache
	Revision string `json:"vcs,omitempty"`    // VCS revision, when stamped
	Modified bool   `json:"dirty,omitempty"`  // the checkout had changes
	Binary   string `json:"binary,omitempty"` // SHA-256 of the executable
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Code names the code version in campaign identities (DESIGN §7): the module
// sum, else a clean VCS revision, else the digest of the executable.
func (b buildInfo) Code() string {
	switch {
	case b.Sum != "":
		return b.Module + " " + b.Sum
	case b.Revision != "" && !b.Modified:
		return "vcs:" + b.Revision
	default:
		return "binary:" + b.Binary
	}
}

// readBuild collects what the binary knows about itself. The executable is
// hashed only when nothing better names the code.
func readBuild() (buildInfo, error) {
	b := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Module, b.Sum = info.Main.Version, info.Main.Sum
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Sum != "" || b.Revision != "" && !b.Modified {
		return b, nil
	}
	digest, err := hashExecutable()
	if err != nil {
		return b, fmt.Errorf("name the running code: %w", err)
	}
	b.Binary = "sha256:" + digest
	return b, nil
}

func hashExecutable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only: nothing can be lost
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (a *app) versionCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the identity of the running code",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			b, err := readBuild()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					Schema schemaRef `json:"schema"`
					buildInfo
					Code string `json:"code"`
				}{schemaRef{"qualify.version", 1}, b, b.Code()})
			}
			a.printf("%s\ncode     %s\nmodule   %s %s\nbuilt    %s %s\n", toolName, b.Code(), modulePath, b.Module, b.Go, b.Platform)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
