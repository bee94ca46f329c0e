//go:build linux

package vfs

import (
	"errors"
	"io"
	"os"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// descriptor returns what the kernel knows the file as.
func descriptor(base pebblevfs.File) uintptr { return base.Fd() }

// maxVectors is the most buffers that the kernel takes in one call (IOV_MAX).
const maxVectors = 1024

// writeVectored writes all of bufs to the descriptor from offset on. The kernel
// may stop in the middle of a buffer; the rest is then written without vectors.
func writeVectored(fd uintptr, bufs [][]byte, offset int64) (int64, error) {
	var done int64
	for len(bufs) > 0 {
		part := bufs[:min(len(bufs), maxVectors)]
		n, err := unix.Pwritev(int(fd), part, offset+done)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		done += int64(n)
		for len(bufs) > 0 && n >= len(bufs[0]) {
			n -= len(bufs[0])
			bufs = bufs[1:]
		}
		if n == 0 {
			continue
		}
		for rest := bufs[0][n:]; len(rest) > 0; {
			n, err := unix.Pwrite(int(fd), rest, offset+done)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return done, err
			}
			if n == 0 {
				return done, io.ErrShortWrite
			}
			done += int64(n)
			rest = rest[n:]
		}
		bufs = bufs[1:]
	}
	return done, nil
}

// readVectored fills all of bufs from the descriptor.
func readVectored(fd uintptr, bufs [][]byte, offset int64) error {
	begin := offset
	for len(bufs) > 0 {
		n, err := unix.Preadv(int(fd), bufs[:min(len(bufs), maxVectors)], offset)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return endOfFile(begin, offset)
		}
		offset += int64(n)
		for len(bufs) > 0 && n >= len(bufs[0]) {
			n -= len(bufs[0])
			bufs = bufs[1:]
		}
		if n == 0 {
			continue
		}
		for rest := bufs[0][n:]; len(rest) > 0; {
			n, err := unix.Pread(int(fd), rest, offset)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return endOfFile(begin, offset)
			}
			offset += int64(n)
			rest = rest[n:]
		}
		bufs = bufs[1:]
	}
	return nil
}

func endOfFile(begin, offset int64) error {
	if offset > begin {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

func extend(fd uintptr, size int64) error { return unix.Ftruncate(int(fd), size) }

// nextData returns where the next data is, -1 when there is none. It moves the
// descriptor's own offset, which nothing here uses.
func nextData(fd uintptr, from int64) (int64, error) {
	at, err := unix.Seek(int(fd), from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return -1, nil
	case errors.Is(err, unix.EINVAL): // a file system that does not know
		return from, nil
	}
	return at, err
}

// mapDescriptor maps the whole file read-only. The map outlives the descriptor.
func mapDescriptor(fd uintptr) ([]byte, func([]byte) error, error) {
	// The map library wants an *os.File, which would close the descriptor when it
	// is collected; so it gets one of its own.
	own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(own), "map")
	defer f.Close()
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	return m, func(b []byte) error { mapped := mmap.MMap(b); return mapped.Unmap() }, nil
}

// willNeed gives the kernel a hint; there is nothing to do when it is not taken.
func willNeed(fd uintptr, offset, bytes int64) {
	_ = unix.Fadvise(int(fd), offset, bytes, unix.FADV_WILLNEED)
}
