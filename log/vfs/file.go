package vfs

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// File is an open file. Offsets and lengths are bytes.
type File struct {
	base pebblevfs.File
	name string
	fd   uintptr // pebblevfs.InvalidFd when there is no descriptor
}

func newFile(base pebblevfs.File, name string) *File {
	return &File{base: base, name: name, fd: descriptor(base)}
}

// Name returns the name that the file was opened under.
func (f *File) Name() string { return f.name }

// Size returns the length of the file.
func (f *File) Size() (int64, error) {
	info, err := f.base.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat %s: %w", f.name, err)
	}
	return info.Size(), nil
}

// WriteV writes the buffers one after the other from offset on and returns how
// many bytes were written. It is less than the sum of the buffers only together
// with an error, and then what lies in the file behind the bytes that were
// counted is unknown. The buffers are borrowed for the call.
func (f *File) WriteV(bufs [][]byte, offset int64) (int64, error) {
	if f.fd != pebblevfs.InvalidFd {
		n, err := writeVectored(f.fd, bufs, offset)
		if err != nil {
			err = fmt.Errorf("write %s at %d: %w", f.name, offset+n, err)
		}
		runtime.KeepAlive(f)
		return n, err
	}
	var done int64
	for _, buf := range bufs {
		n, err := f.WriteAt(buf, offset+done)
		done += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// WriteAt writes p at offset. It returns less than len(p) only with an error.
func (f *File) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.base.WriteAt(p, offset)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return n, fmt.Errorf("write %s at %d: %w", f.name, offset, err)
	}
	return n, nil
}

// ReadV fills the buffers one after the other from offset on. A file that ends
// before gives an error that wraps io.ErrUnexpectedEOF, or io.EOF when there is
// not one byte.
func (f *File) ReadV(bufs [][]byte, offset int64) error {
	if f.fd != pebblevfs.InvalidFd {
		err := readVectored(f.fd, bufs, offset)
		runtime.KeepAlive(f)
		if err != nil {
			return fmt.Errorf("read %s at %d: %w", f.name, offset, err)
		}
		return nil
	}
	begin := offset
	for _, buf := range bufs {
		n, err := f.ReadAt(buf, offset)
		offset += int64(n)
		if n < len(buf) {
			if offset > begin && errors.Is(err, io.EOF) {
				return fmt.Errorf("read %s at %d: %w", f.name, begin, io.ErrUnexpectedEOF)
			}
			return err
		}
	}
	return nil
}

// ReadAt reads into p from offset on, as io.ReaderAt does: less than len(p)
// bytes come with an error, which wraps io.EOF at the end of the file.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.base.ReadAt(p, offset)
	if n == len(p) {
		return n, nil
	}
	return n, fmt.Errorf("read %s at %d: %w", f.name, offset, err)
}

// SyncData makes everything that was written durable (fdatasync). After an
// error nothing is known about any byte that was written since the last success.
func (f *File) SyncData() error {
	if err := f.base.SyncData(); err != nil {
		return fmt.Errorf("fdatasync %s: %w", f.name, err)
	}
	return nil
}

// WillNeed asks the kernel to read a part of the file into memory ahead of use.
// It is a hint, and returns without waiting for the disk.
func (f *File) WillNeed(offset, bytes int64) {
	if f.fd != pebblevfs.InvalidFd {
		willNeed(f.fd, offset, bytes)
		runtime.KeepAlive(f)
	}
}

// Extend makes the file size bytes long where the file system can do that
// without writing; the new part reads as zeroes and has no room on disk yet. A
// file that is longer, or is not backed by a descriptor, stays as it is.
func (f *File) Extend(size int64) error {
	if f.fd == pebblevfs.InvalidFd {
		return nil
	}
	now, err := f.Size()
	if err != nil || now >= size {
		return err
	}
	err = extend(f.fd, size)
	runtime.KeepAlive(f)
	if err != nil {
		return fmt.Errorf("extend %s to %d: %w", f.name, size, err)
	}
	return nil
}

// NextData returns the first place at or behind from where the file may have
// bytes on disk: what lies before is a hole, which reads as zeroes. It is the
// length of the file when only a hole follows, and from where holes cannot be
// told from data.
func (f *File) NextData(from int64) (int64, error) {
	if f.fd == pebblevfs.InvalidFd {
		return from, nil
	}
	at, err := nextData(f.fd, from)
	runtime.KeepAlive(f)
	if err != nil {
		return from, fmt.Errorf("look for data in %s from %d: %w", f.name, from, err)
	}
	if at < 0 {
		return f.Size()
	}
	return at, nil
}

// ZeroFill writes zeroes to the range from <= offset < to.
func (f *File) ZeroFill(from, to int64) error {
	for from < to {
		n := min(to-from, int64(len(zeroes)))
		if _, err := f.WriteAt(zeroes[:n], from); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// zeroes is what ZeroFill writes; nobody writes to it.
var zeroes [128 << 10]byte

// Close closes the file. What was written and not synced may still get lost.
func (f *File) Close() error {
	if err := f.base.Close(); err != nil {
		return fmt.Errorf("close %s: %w", f.name, err)
	}
	return nil
}
