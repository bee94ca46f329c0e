package vfs

import (
	"errors"
	"fmt"
	"io"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// Map is a whole file, readable as memory. It stays readable when the file is
// removed, and must not be used after Close. It must only be made of files that
// nobody shortens, since reading a page past the end kills the process.
type Map struct {
	data  []byte
	unmap func([]byte) error // nil when data is a copy in memory
}

// Map maps the named file read-only. Where files have no descriptor its bytes
// are read into memory instead.
func (fs *FS) Map(name string) (*Map, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return &Map{}, nil // the kernel maps no empty files
	}
	if f.fd != pebblevfs.InvalidFd {
		data, unmap, err := mapDescriptor(f.fd)
		if err != nil {
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
		return &Map{data: data, unmap: unmap}, nil
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &Map{data: data}, nil
}

// Bytes returns the file's bytes. They are valid until Close and must not be
// written to.
func (m *Map) Bytes() []byte { return m.data }

// Close ends the map.
func (m *Map) Close() error {
	data := m.data
	m.data = nil
	if m.unmap == nil || data == nil {
		return nil
	}
	if err := m.unmap(data); err != nil {
		return fmt.Errorf("unmap: %w", err)
	}
	return nil
}
