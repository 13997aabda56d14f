//go:build linux || darwin || freebsd

package main

import "syscall"

// freeSpace is the number of bytes that this user may still write to the file
// system of a folder; known is false where the system does not tell.
func freeSpace(dir string) (free uint64, known bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true, nil //nolint:unconvert // the fields differ in type between systems
}
