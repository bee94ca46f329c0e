package vfstest_test

import (
	"errors"
	"io"
	"syscall"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

func TestTheNthMatchingOperationFailsOnce(t *testing.T) {
	fs := vfstest.New(pebblevfs.NewMem())
	f, err := fs.Create("f", pebblevfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	isWrite := func(op vfstest.Op) bool { return op.Kind == vfstest.Write }
	fs.Decide(vfstest.FailNth(2, vfstest.EIO, isWrite))
	for i, want := range []error{nil, syscall.EIO, nil} {
		if _, err := f.WriteAt([]byte("x"), int64(i)); !errors.Is(err, want) {
			t.Errorf("write %d: %v", i, err)
		}
	}
}

func TestAShortWriteLeavesItsBeginning(t *testing.T) {
	fs := vfstest.New(pebblevfs.NewMem())
	f, err := fs.Create("f", pebblevfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == vfstest.Write {
			return &vfstest.Fault{Err: syscall.ENOSPC, Short: 3}
		}
		return nil
	})
	if n, err := f.WriteAt([]byte("0123456789"), 0); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%d, %v", n, err)
	}
	got := make([]byte, 10)
	if n, err := f.ReadAt(got, 0); n != 3 || !errors.Is(err, io.EOF) || string(got[:n]) != "012" {
		t.Fatalf("%q, %v", got[:n], err)
	}
}

func TestTheHookSeesEveryOperationAfterIt(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	var kinds []vfstest.Kind
	var size int64
	fs.After(func(op vfstest.Op) {
		if op.N != fs.Count() {
			t.Errorf("%v is not the newest of %d", op, fs.Count())
		}
		kinds = append(kinds, op.Kind)
		if info, err := mem.Stat("f"); err == nil {
			size = info.Size()
		}
		if op.Kind == vfstest.Write && size != 5 {
			t.Errorf("after the write the file has %d bytes", size)
		}
	})
	f, err := fs.Create("f", pebblevfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		errOf(f.Write([]byte("12345"))), f.Sync(), f.SyncData(), errOf(f.ReadAt(make([]byte, 5), 0)), f.Close(),
		fs.Rename("f", "g"), errOf(fs.List("")), errOf(fs.Stat("g")), fs.Link("g", "h"), fs.Remove("g"), fs.RemoveAll("h"),
		fs.MkdirAll("d", 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []vfstest.Kind{
		vfstest.Create, vfstest.Write, vfstest.Sync, vfstest.Sync, vfstest.Read, vfstest.Close, vfstest.Rename,
		vfstest.List, vfstest.Stat, vfstest.Link, vfstest.Remove, vfstest.Remove, vfstest.Mkdir,
	}
	if len(kinds) != len(want) {
		t.Fatalf("saw %v", kinds)
	}
	for i := range want {
		if kinds[i] != want[i] {
			t.Errorf("operation %d was %v", i, kinds[i])
		}
	}
	if f.Fd() != pebblevfs.InvalidFd {
		t.Error("the file has a descriptor")
	}
}

func errOf[T any](_ T, err error) error { return err }
