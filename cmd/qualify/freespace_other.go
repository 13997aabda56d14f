//go:build !(linux || darwin || freebsd)

package main

// freeSpace is the number of bytes that this user may still write to the file
// system of a folder; known is false where the system does not tell.
func freeSpace(string) (free uint64, known bool, err error) { return 0, false, nil }
