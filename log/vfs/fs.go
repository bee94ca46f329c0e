package vfs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"syscall"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// category is what Pebble's disk statistics count our writes under.
const category pebblevfs.DiskWriteCategory = "sluice-log"

// FS is a file system: names, directories and locks. The zero value is not
// usable; see New and Disk.
type FS struct {
	base pebblevfs.FS
}

// New returns the FS on top of base.
func New(base pebblevfs.FS) *FS { return &FS{base: base} }

// Disk returns the FS of the operating system.
func Disk() *FS { return New(pebblevfs.Default) }

// Base returns the Pebble file system underneath, for the state store.
func (fs *FS) Base() pebblevfs.FS { return fs.base }

// Create makes the named file, empty, for reading and writing. A file that has
// the name already is removed first.
func (fs *FS) Create(name string) (*File, error) {
	f, err := fs.base.Create(name, category)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return newFile(f, name), nil
}

// Open opens the named file for reading. The error wraps fs.ErrNotExist when
// there is none (see NotExist).
func (fs *FS) Open(name string) (*File, error) {
	f, err := fs.base.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return newFile(f, name), nil
}

// OpenReadWrite opens the named file for reading and writing. The file is made
// when there is none.
func (fs *FS) OpenReadWrite(name string) (*File, error) {
	f, err := fs.base.OpenReadWrite(name, category)
	if err != nil {
		return nil, fmt.Errorf("open %s for writing: %w", name, err)
	}
	return newFile(f, name), nil
}

// MkdirAll makes the directory and the parents that are missing. The names are
// durable when each parent was synced.
func (fs *FS) MkdirAll(dir string) error {
	if err := fs.base.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	return nil
}

// Rename gives the file another name in the same directory, replacing a file
// that has it.
func (fs *FS) Rename(from, to string) error {
	if err := fs.base.Rename(from, to); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

// Remove removes the named file or empty directory.
func (fs *FS) Remove(name string) error {
	if err := fs.base.Remove(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// RemoveAll removes the named file, or the directory with all that is in it. It
// is not an error when there is none.
func (fs *FS) RemoveAll(name string) error {
	if err := fs.base.RemoveAll(name); err != nil {
		return fmt.Errorf("remove all of %s: %w", name, err)
	}
	return nil
}

// List returns the names in the directory, sorted.
func (fs *FS) List(dir string) ([]string, error) {
	names, err := fs.base.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	slices.Sort(names)
	return names, nil
}

// Size returns the length of the named file in bytes.
func (fs *FS) Size(name string) (int64, error) {
	info, err := fs.base.Stat(name)
	if err != nil {
		return 0, fmt.Errorf("stat %s: %w", name, err)
	}
	return info.Size(), nil
}

// SyncDir makes the names in the directory durable.
func (fs *FS) SyncDir(dir string) error {
	d, err := fs.base.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open directory %s: %w", dir, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// Lock takes the lock that the named file stands for, making the file when
// there is none. It fails at once when another process, or another caller in
// this one, has it. Closing what is returned gives the lock back.
func (fs *FS) Lock(name string) (io.Closer, error) {
	l, err := fs.base.Lock(name)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return l, nil
}

// Space is how much room a file system has, in bytes.
type Space struct {
	Free  uint64 // what this process may still use
	Total uint64
}

// Space returns the room on the file system that holds the path. ok is false
// where it cannot be told (file systems in memory).
func (fs *FS) Space(path string) (s Space, ok bool, err error) {
	usage, err := fs.base.GetDiskUsage(path)
	if errors.Is(err, pebblevfs.ErrUnsupported) {
		return Space{}, false, nil
	}
	if err != nil {
		return Space{}, false, fmt.Errorf("disk usage of %s: %w", path, err)
	}
	return Space{Free: usage.AvailBytes, Total: usage.TotalBytes}, true, nil
}

// Join puts the elements together to one name, as the file system spells it.
func (fs *FS) Join(elem ...string) string { return fs.base.PathJoin(elem...) }

// NotExist reports whether err says that a file or directory is not there.
func NotExist(err error) bool { return errors.Is(err, iofs.ErrNotExist) }

// NoSpace reports whether err says that the disk, or the quota on it, is used up.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
