package freeze

import (
	"io/fs"
	"syscall"
)

const openNonblock = syscall.O_NONBLOCK

func statOf(info fs.FileInfo) stat {
	s := stat{size: info.Size(), mode: info.Mode(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime = st.Ctimespec.Nano()
		s.dev, s.ino, s.known = uint64(st.Dev), st.Ino, true
	}
	return s
}
