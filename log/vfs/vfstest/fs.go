// Package vfstest makes file systems misbehave in tests.
//
// FS sits between a test's subject and a Pebble file system. It counts the
// operations that change or read files, calls a hook after each one, which is
// where a test takes a crash clone (pebble/v2/vfs.MemFS.CrashClone), and lets
// chosen operations fail. It hides the descriptors of files, so that everything
// passes through it, over a real disk too.
package vfstest

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Create  Kind = "create"
	Link    Kind = "link"
	Open    Kind = "open" // also of directories
	Remove  Kind = "remove"
	Rename  Kind = "rename"
	Mkdir   Kind = "mkdir"
	Lock    Kind = "lock"
	List    Kind = "list"
	Stat    Kind = "stat"
	Read    Kind = "read"
	Write   Kind = "write"
	Sync    Kind = "sync" // data and directories
	Close   Kind = "close"
	usageOf Kind = "usage"
)

// Changes reports whether an operation of this kind can change what a crash
// leaves behind.
func (k Kind) Changes() bool {
	switch k {
	case Create, Link, Remove, Rename, Mkdir, Lock, Write, Sync:
		return true
	}
	return false
}

// Op is one operation.
type Op struct {
	N      int64 // 1 for the first operation of the FS, and so on
	Kind   Kind
	Path   string
	Offset int64 // of reads and writes at an offset
	Bytes  int   // of reads and writes
}

// String returns the operation in one line.
func (o Op) String() string {
	return fmt.Sprintf("#%d %s %s at=%d bytes=%d", o.N, o.Kind, o.Path, o.Offset, o.Bytes)
}

// Fault says how an operation fails. Short, for writes, lets that many bytes
// reach the file before it does.
type Fault struct {
	Err   error
	Short int
}

// Usual faults.
var (
	EIO    = &Fault{Err: syscall.EIO}
	ENOSPC = &Fault{Err: syscall.ENOSPC}
)

// FS is a Pebble file system that watches and breaks the one below it. It is
// safe for concurrent use.
type FS struct {
	below pebblevfs.FS
	count atomic.Int64

	mu     sync.RWMutex // guards what follows
	decide func(Op) *Fault
	after  func(Op)
	usage  func() pebblevfs.DiskUsage
}

// New returns an FS over below that lets everything through.
func New(below pebblevfs.FS) *FS { return &FS{below: below} }

// Decide makes decide say which operations fail: nil lets one through. It is
// called before each operation, from the goroutine that asks for it, and
// replaces the function that was set before; a nil function lets all through.
func (fs *FS) Decide(decide func(Op) *Fault) {
	fs.mu.Lock()
	fs.decide = decide
	fs.mu.Unlock()
}

// After makes after be called when an operation is done, or has failed.
func (fs *FS) After(after func(Op)) {
	fs.mu.Lock()
	fs.after = after
	fs.mu.Unlock()
}

// Usage makes usage say how much room the disk has; a nil function asks the file
// system below.
func (fs *FS) Usage(usage func() pebblevfs.DiskUsage) {
	fs.mu.Lock()
	fs.usage = usage
	fs.mu.Unlock()
}

// Count returns how many operations were asked for.
func (fs *FS) Count() int64 { return fs.count.Load() }

// FailNth returns a function for Decide that lets the n-th operation (from 1)
// for which match is true fail with fault, once.
func FailNth(n int64, fault *Fault, match func(Op) bool) func(Op) *Fault {
	var seen atomic.Int64
	return func(op Op) *Fault {
		if match(op) && seen.Add(1) == n {
			return fault
		}
		return nil
	}
}

// begin counts an operation. It returns how it is to fail, if it is, and the hook
// to call with it afterwards.
func (fs *FS) begin(op *Op) (fault *Fault, after func(Op)) {
	op.N = fs.count.Add(1)
	fs.mu.RLock()
	decide, after := fs.decide, fs.after
	fs.mu.RUnlock()
	if decide != nil {
		fault = decide(*op)
	}
	if after == nil {
		after = func(Op) {}
	}
	return fault, after
}

// do runs one operation, or its fault.
func (fs *FS) do(op Op, run func() error) (err error) {
	fault, after := fs.begin(&op)
	if fault == nil {
		err = run()
	} else {
		err = fault.error(op)
	}
	after(op)
	return err
}

// error returns the error that the operation fails with.
func (f *Fault) error(op Op) error {
	return &os.PathError{Op: string(op.Kind), Path: op.Path, Err: f.Err}
}

// Create implements the Pebble file system, as do the methods that follow.
func (fs *FS) Create(name string, category pebblevfs.DiskWriteCategory) (f pebblevfs.File, err error) {
	err = fs.do(Op{Kind: Create, Path: name}, func() error {
		f, err = fs.below.Create(name, category)
		return err
	})
	return fs.wrap(f, name, err)
}

func (fs *FS) Link(from, to string) error {
	return fs.do(Op{Kind: Link, Path: to}, func() error { return fs.below.Link(from, to) })
}

func (fs *FS) Open(name string, opts ...pebblevfs.OpenOption) (f pebblevfs.File, err error) {
	err = fs.do(Op{Kind: Open, Path: name}, func() error {
		f, err = fs.below.Open(name, opts...)
		return err
	})
	return fs.wrap(f, name, err)
}

func (fs *FS) OpenReadWrite(
	name string, category pebblevfs.DiskWriteCategory, opts ...pebblevfs.OpenOption,
) (f pebblevfs.File, err error) {
	err = fs.do(Op{Kind: Create, Path: name}, func() error {
		f, err = fs.below.OpenReadWrite(name, category, opts...)
		return err
	})
	return fs.wrap(f, name, err)
}

func (fs *FS) OpenDir(name string) (f pebblevfs.File, err error) {
	err = fs.do(Op{Kind: Open, Path: name}, func() error {
		f, err = fs.below.OpenDir(name)
		return err
	})
	return fs.wrap(f, name, err)
}

func (fs *FS) Remove(name string) error {
	return fs.do(Op{Kind: Remove, Path: name}, func() error { return fs.below.Remove(name) })
}

func (fs *FS) RemoveAll(name string) error {
	return fs.do(Op{Kind: Remove, Path: name}, func() error { return fs.below.RemoveAll(name) })
}

func (fs *FS) Rename(from, to string) error {
	return fs.do(Op{Kind: Rename, Path: to}, func() error { return fs.below.Rename(from, to) })
}

func (fs *FS) ReuseForWrite(
	from, to string, category pebblevfs.DiskWriteCategory,
) (f pebblevfs.File, err error) {
	err = fs.do(Op{Kind: Rename, Path: to}, func() error {
		f, err = fs.below.ReuseForWrite(from, to, category)
		return err
	})
	return fs.wrap(f, to, err)
}

func (fs *FS) MkdirAll(dir string, perm os.FileMode) error {
	return fs.do(Op{Kind: Mkdir, Path: dir}, func() error { return fs.below.MkdirAll(dir, perm) })
}

func (fs *FS) Lock(name string) (l io.Closer, err error) {
	err = fs.do(Op{Kind: Lock, Path: name}, func() error {
		l, err = fs.below.Lock(name)
		return err
	})
	return l, err
}

func (fs *FS) List(dir string) (names []string, err error) {
	err = fs.do(Op{Kind: List, Path: dir}, func() error {
		names, err = fs.below.List(dir)
		return err
	})
	return names, err
}

func (fs *FS) Stat(name string) (info pebblevfs.FileInfo, err error) {
	err = fs.do(Op{Kind: Stat, Path: name}, func() error {
		info, err = fs.below.Stat(name)
		return err
	})
	return info, err
}

func (fs *FS) GetDiskUsage(path string) (u pebblevfs.DiskUsage, err error) {
	fs.mu.RLock()
	usage := fs.usage
	fs.mu.RUnlock()
	err = fs.do(Op{Kind: usageOf, Path: path}, func() error {
		if usage != nil {
			u, err = usage(), nil
			return nil
		}
		u, err = fs.below.GetDiskUsage(path)
		return err
	})
	return u, err
}

func (fs *FS) PathBase(path string) string    { return fs.below.PathBase(path) }
func (fs *FS) PathJoin(elem ...string) string { return fs.below.PathJoin(elem...) }
func (fs *FS) PathDir(path string) string     { return fs.below.PathDir(path) }
func (fs *FS) Unwrap() pebblevfs.FS           { return fs.below }

func (fs *FS) wrap(f pebblevfs.File, name string, err error) (pebblevfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: f, fs: fs, name: name}, nil
}
