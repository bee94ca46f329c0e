package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// each runs the test over a file system in memory, the disk, and the disk with
// descriptors hidden.
func each(t *testing.T, test func(t *testing.T, fs *vfs.FS, dir string)) {
	t.Run("fs=mem", func(t *testing.T) { test(t, vfs.New(pebblevfs.NewMem()), "") })
	t.Run("fs=disk", func(t *testing.T) { test(t, vfs.Disk(), t.TempDir()) })
	t.Run("fs=plain", func(t *testing.T) { test(t, vfs.New(vfstest.New(pebblevfs.Default)), t.TempDir()) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fs *vfs.FS, name string) *vfs.File {
	t.Helper()
	f, err := fs.Create(name)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestVectorsAreWrittenAndReadInOrder(t *testing.T) {
	each(t, func(t *testing.T, fs *vfs.FS, dir string) {
		f := create(t, fs, fs.Join(dir, "f"))
		rng := rand.New(rand.NewPCG(1, 2))
		// More buffers than the kernel takes at once, some of them empty.
		var parts [][]byte
		var want []byte
		for range 2500 {
			part := make([]byte, rng.IntN(50))
			for i := range part {
				part[i] = byte(rng.Uint32())
			}
			parts, want = append(parts, part), append(want, part...)
		}
		n, err := f.WriteV(parts, 777)
		if err != nil || n != int64(len(want)) {
			t.Fatalf("wrote %d of %d: %v", n, len(want), err)
		}
		got := make([]byte, len(want))
		if n, err := f.ReadAt(got, 777); err != nil || n != len(got) || !bytes.Equal(got, want) {
			t.Fatalf("read %d: %v, equal %v", n, err, bytes.Equal(got, want))
		}
		clear(got)
		var into [][]byte
		for rest := got; len(rest) > 0; {
			n := min(rng.IntN(60), len(rest))
			into, rest = append(into, rest[:n]), rest[n:]
		}
		must(t, f.ReadV(into, 777))
		if !bytes.Equal(got, want) {
			t.Fatal("other bytes were read into vectors")
		}
		head := make([]byte, 777)
		if _, err := f.ReadAt(head, 0); err != nil || !bytes.Equal(head, make([]byte, 777)) {
			t.Fatalf("what was skipped is not zero: %v", err)
		}
	})
}

func TestReadingPastTheEndSaysHowMuchIsMissing(t *testing.T) {
	each(t, func(t *testing.T, fs *vfs.FS, dir string) {
		f := create(t, fs, fs.Join(dir, "f"))
		_, err := f.WriteAt([]byte("0123456789"), 0)
		must(t, err)
		two := func() [][]byte { return [][]byte{make([]byte, 4), make([]byte, 4)} }
		if err := f.ReadV(two(), 2); err != nil {
			t.Errorf("in the file: %v", err)
		}
		for _, at := range []int64{3, 7} {
			if err := f.ReadV(two(), at); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("from %d on: %v", at, err)
			}
		}
		for _, at := range []int64{10, 50} {
			if err := f.ReadV(two(), at); !errors.Is(err, io.EOF) {
				t.Errorf("from %d on: %v", at, err)
			}
		}
		if n, err := f.ReadAt(make([]byte, 8), 5); n != 5 || !errors.Is(err, io.EOF) {
			t.Errorf("ReadAt: %d, %v", n, err)
		}
	})
}

func TestZeroFillAndExtendLeaveZeroes(t *testing.T) {
	each(t, func(t *testing.T, fs *vfs.FS, dir string) {
		f := create(t, fs, fs.Join(dir, "f"))
		_, err := f.WriteAt(bytes.Repeat([]byte{1}, 400_000), 0)
		must(t, err)
		must(t, f.ZeroFill(100, 300_000))
		must(t, f.Extend(100)) // shorter: nothing happens
		must(t, f.SyncData())
		size, err := f.Size()
		if err != nil || size != 400_000 {
			t.Fatalf("size %d, %v", size, err)
		}
		got := make([]byte, size)
		_, err = f.ReadAt(got, 0)
		must(t, err)
		for i, b := range got {
			if zero := i >= 100 && i < 300_000; zero != (b == 0) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
		must(t, f.Extend(500_000))
		if size, err = f.Size(); err != nil || size != 500_000 && size != 400_000 {
			t.Fatalf("size %d, %v", size, err)
		}
		if size == 500_000 {
			if _, err := f.ReadAt(got[:1000], 499_000); err != nil || !bytes.Equal(got[:1000], make([]byte, 1000)) {
				t.Fatalf("the new part is not zero: %v", err)
			}
		}
	})
}

func TestMapShowsTheFileAndOutlivesIt(t *testing.T) {
	each(t, func(t *testing.T, fs *vfs.FS, dir string) {
		name := fs.Join(dir, "f")
		f := create(t, fs, name)
		want := bytes.Repeat([]byte("map me "), 3000)
		_, err := f.WriteAt(want, 0)
		must(t, err)
		m, err := fs.Map(name)
		must(t, err)
		must(t, fs.Remove(name))
		if !bytes.Equal(m.Bytes(), want) {
			t.Fatal("the map has other bytes")
		}
		must(t, m.Close())
		must(t, m.Close())
		if _, err := fs.Map(name); !vfs.NotExist(err) {
			t.Fatalf("map of no file: %v", err)
		}
		create(t, fs, name)
		m, err = fs.Map(name)
		must(t, err)
		if len(m.Bytes()) != 0 {
			t.Fatal("an empty file has bytes")
		}
		must(t, m.Close())
	})
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, fs *vfs.FS, dir string) {
		d := fs.Join(dir, "a")
		must(t, fs.MkdirAll(d))
		for _, name := range []string{"z", "b", "m"} {
			create(t, fs, fs.Join(d, name))
		}
		must(t, fs.Rename(fs.Join(d, "m"), fs.Join(d, "c")))
		must(t, fs.Remove(fs.Join(d, "z")))
		must(t, fs.SyncDir(d))
		names, err := fs.List(d)
		if err != nil || !slices.Equal(names, []string{"b", "c"}) {
			t.Fatalf("names are %v, %v", names, err)
		}
		for what, err := range map[string]error{
			"open":   errOf(fs.Open(fs.Join(d, "m"))),
			"size":   errOf(fs.Size(fs.Join(d, "m"))),
			"list":   errOf(fs.List(fs.Join(d, "none"))),
			"remove": fs.Remove(fs.Join(d, "m")),
		} {
			if !vfs.NotExist(err) {
				t.Errorf("%s of what is not there: %v", what, err)
			}
		}
		f, err := fs.OpenReadWrite(fs.Join(d, "new"))
		must(t, err)
		must(t, f.Close())
		must(t, fs.RemoveAll(d))
		must(t, fs.RemoveAll(d))
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestALockIsHeldByOne(t *testing.T) {
	each(t, func(t *testing.T, fs *vfs.FS, dir string) {
		name := fs.Join(dir, "lock")
		l, err := fs.Lock(name)
		must(t, err)
		if _, err := fs.Lock(name); err == nil {
			t.Fatal("locked twice")
		}
		must(t, l.Close())
		l, err = fs.Lock(name)
		must(t, err)
		must(t, l.Close())
	})
}

func TestSpaceOfTheDiskIsKnown(t *testing.T) {
	s, ok, err := vfs.Disk().Space(t.TempDir())
	if err != nil || !ok || s.Free == 0 || s.Total < s.Free {
		t.Fatalf("%+v, %v, %v", s, ok, err)
	}
	if _, ok, err := vfs.New(pebblevfs.NewMem()).Space("/"); ok || err != nil {
		t.Fatalf("in memory: %v, %v", ok, err)
	}
}

func TestWrappedErrorsAreRecognised(t *testing.T) {
	base := vfstest.New(pebblevfs.NewMem())
	fs := vfs.New(base)
	f := create(t, fs, "f")
	for errno, noSpace := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false} {
		base.Decide(func(op vfstest.Op) *vfstest.Fault {
			if op.Kind == vfstest.Close {
				return nil
			}
			return &vfstest.Fault{Err: errno}
		})
		n, werr := f.WriteV([][]byte{[]byte("abc")}, 0)
		for what, err := range map[string]error{
			"write": werr, "sync": f.SyncData(), "create": errOf(fs.Create("g")), "sync dir": fs.SyncDir(""),
			"rename": fs.Rename("f", "g"), "zero": f.ZeroFill(0, 10), "mkdir": fs.MkdirAll("x"),
		} {
			if !errors.Is(err, errno) || vfs.NoSpace(err) != noSpace {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n != 0 {
			t.Errorf("%d bytes were written", n)
		}
	}
}

func TestAllocations(t *testing.T) {
	fs := vfs.Disk()
	f := create(t, fs, fs.Join(t.TempDir(), "f"))
	bufs := make([][]byte, 6)
	parts := make([][]byte, 6)
	for i := range parts {
		parts[i] = make([]byte, 1000)
	}
	for name, call := range map[string]func(){
		"WriteV": func() { copy(bufs, parts); _, _ = f.WriteV(bufs, 0) },
		"ReadV":  func() { copy(bufs, parts); _ = f.ReadV(bufs, 0) },
	} {
		if n := testing.AllocsPerRun(100, call); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
