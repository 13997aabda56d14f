package host_test

import (
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

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, os.Getenv(childKill)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
