package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// smallDisk returns a folder on a file system of its own. It skips the test
// where that may not be mounted.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("needs the right to mount a small file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// ballast takes room on the disk, all but some bytes. remove gives it back.
func ballast(t *testing.T, dir string, left int64) (remove func()) {
	t.Helper()
	var space syscall.Statfs_t
	if err := syscall.Statfs(dir, &space); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(space.Bavail)*space.Bsize - left
	if size > 0 {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// filler writes records of 100 KB, numbered, to one partition.
type filler struct {
	t     *testing.T
	topic topic
	acked []string // values, in the order of their offsets
	sent  int
}

// try writes one record and returns its error code.
func (f *filler) try(c *raw.Conn) int16 {
	f.t.Helper()
	value := fmt.Sprint(f.sent, " ", strings.Repeat("x", 100_000))
	f.sent++
	a := produce(c, produceVersion, into{f.topic, 0, raw.Values(time.Now().UnixMilli(), value).Bytes()})[0]
	if a.ErrorCode == 0 {
		if a.BaseOffset != int64(len(f.acked)) {
			f.t.Errorf("record %d has offset %d, want %d", f.sent-1, a.BaseOffset, len(f.acked))
		}
		f.acked = append(f.acked, value)
	}
	return a.ErrorCode
}

// check reads what there is: what was acknowledged, and nothing else.
func (f *filler) check(c *raw.Conn, when string) {
	f.t.Helper()
	if got := valuesOf(readAll(f.t, c, f.topic, 0)); !slices.Equal(got, f.acked) {
		f.t.Errorf("%s: %d records are there, %d were acknowledged", when, len(got), len(f.acked))
	}
}

// fill writes until the program refuses.
func (f *filler) fill(c *raw.Conn) {
	f.t.Helper()
	for range 10_000 {
		switch code := f.try(c); code {
		case 0:
		case storageError:
			return
		default:
			f.t.Fatalf("a full disk gave error %d", code)
		}
	}
	f.t.Fatal("the disk does not get full")
}

// B98: with one log for all, a full disk stops all writes, and no reads. When
// there is room again, writing goes on without a restart.
func TestAFullDiskRefusesWritesAndServesReads(t *testing.T) {
	t.Parallel()
	for name, minFree := range map[string]string{
		"before it is full": "8000000", // as it should be: there is room left for what frees room
		"to the last byte":  "0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, 64)
			n := node.Start(t, node.Options{
				Dir: filepath.Join(disk, "data"), MayLogErrors: true,
				Set: []string{"disk.min.free.bytes=" + minFree, "commitlog.segment.bytes=4194304", "commitlog.tail.bytes=1048576"},
			})
			c := raw.Dial(t, n.Addr())
			f := &filler{t: t, topic: makeTopic(t, c, "full", 1)}
			other := makeTopic(t, c, "other", 1)
			write(t, c, other, 0, records(1))
			remove := ballast(t, disk, 25<<20)
			f.fill(c)
			if len(f.acked) < 50 {
				t.Errorf("only %d records of 100 KB found room in 25 MiB", len(f.acked))
			}
			if minFree != "0" {
				waitFor(t, "the program to say that it is not ready", func() bool { status, _ := n.Get("/readyz"); return status == 503 })
			}
			if status, body := n.Get("/healthz"); status != 200 {
				t.Errorf("healthz: %d %s", status, body)
			}
			// All partitions are refused, reads go on.
			for range 20 {
				if code := f.try(c); code != storageError && code != 0 {
					t.Errorf("error %d", code)
				}
			}
			f.check(c, "while the disk is full")
			if got := readAll(t, c, other, 0); len(got) != 1 {
				t.Errorf("%d records of the other topic", len(got))
			}
			remove()
			waitFor(t, "writes to be accepted again", func() bool { return f.try(c) == 0 })
			waitFor(t, "the program to be ready", func() bool { status, _ := n.Get("/readyz"); return status == 200 })
			for range 20 {
				if code := f.try(c); code != 0 {
					t.Errorf("with room again: error %d", code)
				}
			}
			f.check(c, "with room again")
			write(t, c, other, 0, records(2))
			n.Kill()
			n.Restart()
			c = raw.Dial(t, n.Addr())
			f.check(c, "after a crash")
			if got := readAll(t, c, other, 0); len(got) != 2 {
				t.Errorf("%d records of the other topic", len(got))
			}
			// A crash while the disk is full is no worse.
			remove = ballast(t, disk, 10<<20)
			f.fill(c)
			n.Kill()
			if err := n.TryRestart(); err != nil {
				// The state store needs room to be opened. That is said, and no harm done.
				if !strings.Contains(err.Error(), "no space left") {
					t.Errorf("the start on a full disk failed with %v", err)
				}
				remove()
				n.Restart()
			} else {
				f.check(raw.Dial(t, n.Addr()), "started on a full disk")
				remove()
			}
			c = raw.Dial(t, n.Addr())
			f.check(c, "after a crash on a full disk")
			waitFor(t, "writes to be accepted again", func() bool { return f.try(c) == 0 })
			f.check(c, "in the end")
		})
	}
}

// Who deletes a topic, or records, gets room although the disk is full.
func TestDeletingMakesRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 64)
	n := node.Start(t, node.Options{
		Dir: filepath.Join(disk, "data"), MayLogErrors: true,
		Set: []string{"disk.min.free.bytes=12000000", "commitlog.segment.bytes=4194304", "commitlog.tail.bytes=1048576"},
	})
	c := raw.Dial(t, n.Addr())
	for round, free := range []func(f *filler) kmsg.Request{
		func(f *filler) kmsg.Request { return deleteRecords(f.topic.name, int64(len(f.acked)-5)) },
		func(f *filler) kmsg.Request { return deleteTopic(f.topic.name) },
	} {
		f := &filler{t: t, topic: makeTopic(t, c, fmt.Sprint("full-", round), 1)}
		f.fill(c)
		if r, err := c.Try(free(f)); err != nil || codeOf(r) != 0 {
			t.Fatalf("round %d: %+v, %v", round, r, err)
		}
		again := &filler{t: t, topic: makeTopic(t, c, fmt.Sprint("again-", round), 1)}
		waitFor(t, "writes to be accepted again", func() bool { return again.try(c) == 0 })
		for range 100 {
			if code := again.try(c); code != 0 {
				t.Fatalf("round %d: error %d", round, code)
			}
		}
		again.check(c, "with room again")
		dropTopic(t, c, again.topic.name)
	}
	f := &filler{t: t, topic: makeTopic(t, c, "last", 1)}
	for range 3 {
		if code := f.try(c); code != 0 {
			t.Errorf("in the end: error %d", code)
		}
	}
	n.Kill()
	n.Restart()
	f.check(raw.Dial(t, n.Addr()), "after a crash")
}
