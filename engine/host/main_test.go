package host_test

import (
	"testing"

	"go.uber.org/goleak"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
