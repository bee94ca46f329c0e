package vfstest

import (
	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// file passes the operations of one open file through its FS.
type file struct {
	pebblevfs.File
	fs   *FS
	name string
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.fs.do(Op{Kind: Read, Path: f.name, Bytes: len(p)}, func() error {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(Op{Kind: Read, Path: f.name, Offset: off, Bytes: len(p)}, func() error {
		n, err = f.File.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *file) Write(p []byte) (int, error) {
	return f.write(Op{Kind: Write, Path: f.name, Bytes: len(p)}, p, f.File.Write)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	return f.write(Op{Kind: Write, Path: f.name, Offset: off, Bytes: len(p)}, p,
		func(p []byte) (int, error) { return f.File.WriteAt(p, off) })
}

// write lets the fault of a write be a short one.
func (f *file) write(op Op, p []byte, put func([]byte) (int, error)) (n int, err error) {
	fault, after := f.fs.begin(&op)
	if fault == nil {
		n, err = put(p)
	} else {
		if fault.Short > 0 {
			n, err = put(p[:min(fault.Short, len(p))])
		}
		if err == nil {
			err = fault.error(op)
		}
	}
	after(op)
	return n, err
}

func (f *file) Sync() error {
	return f.fs.do(Op{Kind: Sync, Path: f.name}, f.File.Sync)
}

func (f *file) SyncData() error {
	return f.fs.do(Op{Kind: Sync, Path: f.name}, f.File.SyncData)
}

func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.fs.do(Op{Kind: Sync, Path: f.name}, func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

func (f *file) Stat() (info pebblevfs.FileInfo, err error) {
	err = f.fs.do(Op{Kind: Stat, Path: f.name}, func() error {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

// Close closes the file below even when it is to fail, as the kernel does.
func (f *file) Close() error {
	closed := false
	err := f.fs.do(Op{Kind: Close, Path: f.name}, func() error {
		closed = true
		return f.File.Close()
	})
	if !closed {
		if cerr := f.File.Close(); cerr != nil {
			return cerr
		}
	}
	return err
}

// Fd hides the descriptor, so that nothing goes past the FS.
func (f *file) Fd() uintptr { return pebblevfs.InvalidFd }
