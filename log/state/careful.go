package state

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// carefulFS is the file system as Pebble gets it. It does what Pebble leaves to
// others: it makes background work wait after a failure, which Pebble would try
// again without a pause; it makes the store dead where Pebble would panic; and
// it lets nothing be written once the store is dead, since Pebble's idea of the
// disk may be wrong then.
type carefulFS struct {
	pebblevfs.FS
	store *Store
	dir   string
	wait  atomic.Int64 // how long a new table has to wait, as a time.Duration
}

const (
	minWait = 50 * time.Millisecond
	maxWait = 5 * time.Second
)

// slower doubles the time that new tables wait; faster ends it.
func (c *carefulFS) slower() {
	wait := 2 * time.Duration(c.wait.Load())
	c.wait.Store(int64(min(max(wait, minWait), maxWait)))
}

func (c *carefulFS) faster() { c.wait.Store(0) }

// pause waits before a table is made, if the last one failed. Once the store is
// dead it waits for ever: Pebble would take an error as a reason to try again at
// once, without end.
func (c *carefulFS) pause(name string) error {
	if !strings.HasSuffix(name, ".sst") {
		return nil
	}
	if c.alive() != nil {
		c.store.park()
	}
	wait := time.Duration(c.wait.Load())
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.store.closing:
		return ErrClosed
	case <-c.store.died:
		c.store.park()
	}
	return nil
}

// alive returns ErrDead once the store is dead.
func (c *carefulFS) alive() error {
	select {
	case <-c.store.died:
		return ErrDead
	default:
		return nil
	}
}

// Unwrap is for Pebble, which looks for the file system of the disk below.
func (c *carefulFS) Unwrap() pebblevfs.FS { return c.FS }

func (c *carefulFS) Create(name string, category pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {
	if err := c.pause(name); err != nil {
		return nil, err
	}
	if err := c.alive(); err != nil {
		return nil, err
	}
	// A marker names a file that was just made, and Pebble syncs the names of both
	// together. Not every disk keeps the order of what it was not told to keep.
	if strings.HasPrefix(c.PathBase(name), "marker.") {
		if err := c.syncDir(c.PathDir(name)); err != nil {
			return nil, err
		}
	}
	f, err := c.FS.Create(name, category)
	return c.careful(f), err
}

func (c *carefulFS) syncDir(name string) error {
	d, err := c.OpenDir(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (c *carefulFS) OpenReadWrite(name string, category pebblevfs.DiskWriteCategory, opts ...pebblevfs.OpenOption) (pebblevfs.File, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	f, err := c.FS.OpenReadWrite(name, category, opts...)
	return c.careful(f), err
}

// OpenDir returns a directory that makes the store dead when its names cannot be
// synced: Pebble does that in the background only, and panics if it fails.
func (c *carefulFS) OpenDir(name string) (pebblevfs.File, error) {
	f, err := c.FS.OpenDir(name)
	if err != nil || name != c.dir {
		return f, err
	}
	return &carefulDir{File: f, fs: c}, nil
}

func (c *carefulFS) ReuseForWrite(from, to string, category pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	f, err := c.FS.ReuseForWrite(from, to, category)
	return c.careful(f), err
}

func (c *carefulFS) Link(from, to string) error {
	if err := c.alive(); err != nil {
		return err
	}
	return c.FS.Link(from, to)
}

func (c *carefulFS) Rename(from, to string) error {
	if err := c.alive(); err != nil {
		return err
	}
	return c.FS.Rename(from, to)
}

func (c *carefulFS) Remove(name string) error {
	if err := c.alive(); err != nil {
		return err
	}
	return c.FS.Remove(name)
}

func (c *carefulFS) RemoveAll(name string) error {
	if err := c.alive(); err != nil {
		return err
	}
	return c.FS.RemoveAll(name)
}

func (c *carefulFS) careful(f pebblevfs.File) pebblevfs.File {
	if f == nil {
		return nil
	}
	return &carefulFile{File: f, fs: c}
}

// carefulFile is a file that takes nothing once the store is dead.
type carefulFile struct {
	pebblevfs.File
	fs *carefulFS
}

func (f *carefulFile) Write(p []byte) (int, error) {
	if err := f.fs.alive(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *carefulFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.fs.alive(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, offset)
}

func (f *carefulFile) Sync() error {
	if err := f.fs.alive(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *carefulFile) SyncTo(length int64) (bool, error) {
	if err := f.fs.alive(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

func (f *carefulFile) SyncData() error {
	if err := f.fs.alive(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// carefulDir is the store's directory.
type carefulDir struct {
	pebblevfs.File
	fs *carefulFS
}

func (d *carefulDir) Sync() error {
	if err := d.fs.alive(); err != nil {
		return err
	}
	if err := d.File.Sync(); err != nil {
		d.fs.store.die(fmt.Errorf("sync %s: %w", d.fs.dir, err))
		d.fs.store.park()
	}
	return nil
}
