package host_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TestMain plays a child process where the environment asks for one, and runs
// fewer random histories than rapid's default; QUALIFY_LONG runs more.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, os.Getenv(childKill)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	checks := "15"
	if os.Getenv("QUALIFY_LONG") != "" {
		checks = "3000"
	}
	check(flag.Set("rapid.checks", checks))
	goleak.VerifyTestMain(m)
}
