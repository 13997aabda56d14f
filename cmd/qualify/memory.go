package main

import (
	"os"
	"runtime/debug"
)

// What the heap may be: rarely is its growth in percent of what is alive before
// it is collected, memoryLimit the size in bytes from which it is collected more
// often than that.
const (
	rarely      = 400
	memoryLimit = 2 << 30
)

// collectRarely trades memory for time: a campaign keeps some 15 MB alive and
// allocates a hundred kilobytes for each model call, so that with Go's own
// setting of 100 percent the collector took a sixth of the processor. With 400 a
// campaign takes 85 MB in place of 65. GOGC and GOMEMLIMIT in the environment
// go before.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(rarely)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
