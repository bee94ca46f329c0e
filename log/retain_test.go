package log_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// kept is a log with policies that can be changed.
type kept struct {
	*log.Log
	policies sync.Map // entry.Partition → consumequeue.Retention
	freed    chan uint32
	failed   chan error
	room     chan bool
	flushed  chan int64 // of the state store
}

func (k *kept) keep(p entry.Partition, policy consumequeue.Retention) { k.policies.Store(p, policy) }

func openKept(t testing.TB, fs *vfs.FS, dir string, change ...settings) *kept {
	t.Helper()
	k := &kept{
		freed: make(chan uint32, 1000), failed: make(chan error, 1000), room: make(chan bool, 1000), flushed: make(chan int64, 1000),
	}
	o := options(fs, dir)
	o.Policies = func(yield func(entry.Partition, consumequeue.Retention) bool) {
		for p := entry.Partition(1); p < 100; p++ {
			if policy, ok := k.policies.Load(p); ok && !yield(p, policy.(consumequeue.Retention)) {
				return
			}
		}
	}
	o.Events.Freed = func(number uint32) { k.freed <- number }
	o.Events.RetainFailed = func(err error) { k.failed <- err }
	o.Events.State.Flushed = func(bytes int64, _ time.Duration) { k.flushed <- bytes }
	o.Events.Room = func(low bool, _ uint64) { k.room <- low }
	for _, c := range change {
		c(&o)
	}
	var err error
	if k.Log, err = log.Open(o); err != nil {
		t.Fatal(err)
	}
	return k
}

// at returns a batch of one record of about n bytes with the time t.
func at(t entry.Time, n int) []byte {
	var b batch.Builder
	b.Add(&batch.Record{Timestamp: int64(t), Value: make([]byte, n)})
	payload, err := b.Build(nil, nil, batch.Options{})
	if err != nil {
		panic(err)
	}
	return payload
}

func (k *kept) wantBounds(t *testing.T, p entry.Partition, start, end entry.Offset) {
	t.Helper()
	if s, e, ok := k.Bounds(p); !ok || s != start || e != end {
		t.Errorf("partition %d is [%d,%d), want [%d,%d)", p, s, e, start, end)
	}
}

func TestRetentionMovesStartsAndFreesSegments(t *testing.T) {
	for name, test := range map[string]struct {
		policy consumequeue.Retention
		now    entry.Time
		start  entry.Offset
		live   string
	}{
		"nothing is old enough":       {consumequeue.Retention{Ms: 1000, Bytes: -1}, 1900, 0, "[1 2 3 4 5]"},
		"two batches are":             {consumequeue.Retention{Ms: 1000, Bytes: -1}, 2150, 2, "[1 2 3 4 5]"},
		"a segment and a half":        {consumequeue.Retention{Ms: 1000, Bytes: -1}, 2650, 7, "[2 3 4 5]"},
		"all but the last":            {consumequeue.Retention{Ms: 1000, Bytes: -1}, 3850, 19, "[4 5]"},
		"all":                         {consumequeue.Retention{Ms: 1000, Bytes: -1}, 9000, 20, "[5]"},
		"to the moment":               {consumequeue.Retention{Ms: 1000, Bytes: -1}, 2200, 2, "[1 2 3 4 5]"},
		"size: room for all":          {consumequeue.Retention{Ms: -1, Bytes: 1 << 20}, 9000, 0, "[1 2 3 4 5]"},
		"size: room for seven":        {consumequeue.Retention{Ms: -1, Bytes: 7 * 1070}, 9000, 13, "[3 4 5]"},
		"size: none":                  {consumequeue.Retention{Ms: -1, Bytes: 0}, 9000, 20, "[5]"},
		"no limit":                    {consumequeue.Retention{Ms: -1, Bytes: -1}, 1 << 40, 0, "[1 2 3 4 5]"},
		"size and time, size is more": {consumequeue.Retention{Ms: 1000, Bytes: 7 * 1070}, 2150, 13, "[3 4 5]"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			mem := pebblevfs.NewMem()
			k := openKept(t, vfs.New(mem), dataDir)
			create(t, k.Log, 1)
			create(t, k.Log, 2)
			for i := range 20 { // five to a segment, 100 ms apart
				produce(t, k.Log, 1, at(entry.Time(1000+100*i), 1000))
				if i%5 == 4 {
					must(t, k.Roll())
				}
			}
			k.AwaitSealed()
			k.keep(1, test.policy)
			must(t, k.Retain(test.now))
			k.wantBounds(t, 1, test.start, 20)
			if got := fmt.Sprint(k.LiveSegments()); got != test.live {
				t.Errorf("segments %s, want %s", got, test.live)
			}
			must(t, k.Retain(test.now)) // nothing more
			k.wantBounds(t, 1, test.start, 20)
			must(t, k.Close())
			// The end stays where it is although no batch tells of it.
			for range 2 {
				k = openKept(t, vfs.New(mem), dataDir)
				k.wantBounds(t, 1, test.start, 20)
				if got := len(values(t, k.Log, 1)); got != int(20-test.start) {
					t.Errorf("%d records", got)
				}
				must(t, k.Close())
			}
			k = openKept(t, vfs.New(mem), dataDir)
			if offset := produce(t, k.Log, 1, at(9000, 10)); offset != 20 {
				t.Errorf("the next record is at %d", offset)
			}
			must(t, k.Close())
		})
	}
}

// The keeper does it by itself, as often as it is told to.
func TestTheKeeperRetains(t *testing.T) {
	k := openKept(t, vfs.New(pebblevfs.NewMem()), dataDir, func(o *log.Options) { o.RetainEvery = time.Millisecond })
	create(t, k.Log, 1)
	k.keep(1, consumequeue.Retention{Ms: 1000, Bytes: -1})
	watch := k.Watch([]entry.Partition{1})
	produce(t, k.Log, 1, at(1000, 100)) // long ago
	for start := entry.Offset(0); start == 0; start, _, _ = k.Bounds(1) {
		<-watch.Woken()
		watch.Rearm(nil)
	}
	watch.Cancel()
	k.wantBounds(t, 1, 1, 1)
	must(t, k.Roll())
	if number := <-k.freed; number != 1 {
		t.Errorf("segment %d was freed", number)
	}
	must(t, k.Close())
	if len(k.failed) > 0 {
		t.Error(<-k.failed)
	}
}

func TestDeletedRecordsFreeTheirSegments(t *testing.T) {
	k := openKept(t, vfs.New(pebblevfs.NewMem()), dataDir)
	create(t, k.Log, 1)
	for range 3 {
		produce(t, k.Log, 1, records("x", 10))
		must(t, k.Roll())
	}
	k.AwaitSealed()
	for _, step := range []struct{ before, start entry.Offset }{{5, 5}, {3, 5}, {10, 10}, {29, 29}, {1000, 30}} {
		if got, err := k.DeleteRecords(1, step.before); err != nil || got != step.start {
			t.Errorf("delete before %d: %d, %v, want %d", step.before, got, err, step.start)
		}
		k.wantBounds(t, 1, step.start, 30)
	}
	for want := uint32(1); want <= 3; want++ {
		if number := <-k.freed; number != want {
			t.Errorf("segment %d was freed, want %d", number, want)
		}
	}
	if _, err := k.DeleteRecords(7, 1); kerr.Of(err) != kerr.UnknownTopicOrPartition {
		t.Errorf("a partition that is not there: %v", err)
	}
	must(t, k.Close())
}

// On a broker that nobody writes to any more, the space of a deleted topic
// comes back all the same, once there is enough of it to be worth a roll.
func TestTheSpaceOfADeletedTopicComesBackWithoutFurtherWrites(t *testing.T) {
	mem := pebblevfs.NewMem()
	k := openKept(t, vfs.New(mem), dataDir)
	create(t, k.Log, 1)
	create(t, k.Log, 2)
	for range 20 {
		produce(t, k.Log, 1, at(1000, 1000))
	}
	produce(t, k.Log, 2, at(1000, 10))
	if _, err := k.Do(entry.TypeDeleteTopic, 1, nil); err != nil {
		t.Fatal(err)
	}
	must(t, k.Free())
	if got := fmt.Sprint(k.LiveSegments()); got != "[1]" {
		t.Fatalf("segments %s although partition 2 has a record there", got)
	}
	if _, err := k.DeleteRecords(2, 1); err != nil { // kicks the keeper
		t.Fatal(err)
	}
	if number := <-k.freed; number != 1 {
		t.Errorf("segment %d was freed", number)
	}
	if got := fmt.Sprint(k.LiveSegments()); got != "[2]" {
		t.Errorf("segments %s", got)
	}
	// The one that is active now holds next to nothing, and stays.
	for range 3 {
		must(t, k.Free())
	}
	if got := fmt.Sprint(k.LiveSegments()); got != "[2]" {
		t.Errorf("segments %s", got)
	}
	must(t, k.Close())
	k = openKept(t, vfs.New(mem), dataDir)
	k.wantBounds(t, 2, 1, 1)
	must(t, k.Close())
}

// Whatever fails while a segment is removed, it is gone in the end, and what is
// still needed is not.
func TestASegmentThatCannotBeRemovedIsTriedAgain(t *testing.T) {
	for n := int64(1); ; n++ {
		fs := vfstest.New(pebblevfs.NewMem())
		k := openKept(t, vfs.New(fs), dataDir)
		create(t, k.Log, 1)
		for range 3 {
			produce(t, k.Log, 1, records("x", 10))
			must(t, k.Roll())
		}
		k.AwaitSealed()
		must(t, k.Checkpoint(true))
		var failed atomic.Bool
		nth := vfstest.FailNth(n, vfstest.EIO, func(op vfstest.Op) bool { return strings.Contains(op.Path, "commitlog") })
		fs.Decide(func(op vfstest.Op) *vfstest.Fault {
			f := nth(op)
			if f != nil {
				failed.Store(true)
			}
			return f
		})
		if _, err := k.DeleteRecords(1, 20); err != nil && k.Healthy() == nil {
			t.Fatal(err)
		}
		_ = k.Free()
		_ = k.Free()
		done := !failed.Load()
		fs.Decide(nil)
		if k.Healthy() == nil {
			if got := fmt.Sprint(k.LiveSegments()); got != "[3 4]" {
				t.Errorf("operation %d: segments %s", n, got)
			}
			if got := len(values(t, k.Log, 1)); got != 10 {
				t.Errorf("operation %d: %d records", n, got)
			}
		}
		_ = k.Close()
		k = openKept(t, vfs.New(fs), dataDir)
		must(t, k.Free())
		if got := fmt.Sprint(k.LiveSegments()); got != "[3 4]" && got != "[1 2 3 4]" {
			t.Errorf("operation %d, after a restart: segments %s", n, got)
		}
		must(t, k.Close())
		if done {
			return
		}
	}
}

// Damage in the index file of one segment is told, and holds up nobody else.
func TestDamageInOneIndexDoesNotHoldUpTheRetentionOfOthers(t *testing.T) {
	dir := t.TempDir()
	k := openKept(t, vfs.Disk(), dir)
	create(t, k.Log, 1)
	create(t, k.Log, 2)
	for p := entry.Partition(1); p <= 2; p++ {
		for i := range 10 {
			produce(t, k.Log, p, at(entry.Time(1000+i), 100))
		}
		must(t, k.Roll())
	}
	must(t, k.Close())
	name := filepath.Join(dir, "commitlog", "0000000001.idx")
	content, err := os.ReadFile(name)
	must(t, err)
	content[len(content)-200] ^= 1 // in an entry
	must(t, os.WriteFile(name, content, 0o644))
	k = openKept(t, vfs.Disk(), dir)
	k.keep(1, consumequeue.Retention{Ms: 1, Bytes: -1})
	k.keep(2, consumequeue.Retention{Ms: 1, Bytes: -1})
	err = k.Retain(1006)
	if err == nil || !strings.Contains(err.Error(), "partition 1") || !strings.Contains(err.Error(), name) {
		t.Errorf("retain: %v", err)
	}
	k.wantBounds(t, 1, 0, 10)
	k.wantBounds(t, 2, 5, 10)
	var b log.Batches
	if _, err := k.Read(1, 0, 10, 1000, true, &b); kerr.Of(err) != kerr.KafkaStorageError || !strings.Contains(err.Error(), name) {
		t.Errorf("read: %v", err)
	}
	must(t, k.Close())
}

func TestRecordsAreRefusedWhileTheDiskIsNearlyFull(t *testing.T) {
	fs := vfstest.New(pebblevfs.NewMem())
	var free atomic.Uint64
	free.Store(2000)
	fs.Usage(func() pebblevfs.DiskUsage {
		return pebblevfs.DiskUsage{AvailBytes: free.Load(), TotalBytes: 1 << 30, UsedBytes: 1<<30 - free.Load()}
	})
	k := openKept(t, vfs.New(fs), dataDir, func(o *log.Options) { o.MinFreeBytes = 1000 })
	create(t, k.Log, 1)
	produce(t, k.Log, 1, records("x", 10))
	if free, total, ok := k.Space(); !ok || free != 2000 || total != 1<<30 {
		t.Errorf("space: %d of %d, %v", free, total, ok)
	}
	for range 2 {
		free.Store(999)
		k.Look()
		if low := <-k.room; !low {
			t.Error("told that there is room")
		}
		if _, err := k.Do(entry.TypeProduce, 1, records("x", 1)); kerr.Of(err) != kerr.KafkaStorageError || !strings.Contains(err.Error(), "1000 bytes") {
			t.Errorf("produce: %v", err)
		}
		if err := k.Writable(); err == nil {
			t.Error("it calls itself writable")
		}
		must(t, k.Healthy()) // no restart is needed
		// What frees room is taken.
		if _, err := k.DeleteRecords(1, 5); err != nil {
			t.Error(err)
		}
		create(t, k.Log, entry.Partition(10+len(k.LiveSegments())+int(k.Applied())))
		free.Store(1000)
		k.Look()
		if low := <-k.room; low {
			t.Error("told that there is no room")
		}
		produce(t, k.Log, 1, records("x", 1))
		must(t, k.Writable())
	}
	must(t, k.Close())
	// A start on a full disk refuses from the first record on.
	free.Store(10)
	k = openKept(t, vfs.New(fs), dataDir, func(o *log.Options) { o.MinFreeBytes = 1000 })
	if _, err := k.Do(entry.TypeProduce, 1, records("x", 1)); kerr.Of(err) != kerr.KafkaStorageError {
		t.Errorf("produce: %v", err)
	}
	must(t, k.Close())
}

func TestRecordsAreRefusedWhileTheStateStoreCannotBeWritten(t *testing.T) {
	fs := vfstest.New(pebblevfs.NewMem())
	k := openKept(t, vfs.New(fs), dataDir)
	create(t, k.Log, 1)
	produce(t, k.Log, 1, records("x", 10))
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == vfstest.Create && strings.HasSuffix(op.Path, ".sst") {
			return vfstest.ENOSPC
		}
		return nil
	})
	if err := k.Checkpoint(true); err == nil {
		t.Fatal("a flush worked")
	}
	k.Look()
	if _, err := k.Do(entry.TypeProduce, 1, records("x", 1)); kerr.Of(err) != kerr.KafkaStorageError || !strings.Contains(err.Error(), "state store") {
		t.Errorf("produce: %v", err)
	}
	if k.Writable() == nil || k.Healthy() != nil {
		t.Errorf("writable %v, healthy %v", k.Writable(), k.Healthy())
	}
	fs.Decide(nil)
	<-k.flushed // the store tries again by itself
	k.Look()
	produce(t, k.Log, 1, records("x", 1))
	must(t, k.Writable())
	must(t, k.Close())
}

// A start after a crash applies again what came since the state store was made
// durable; the keeper sees to it that this is not much.
func TestTheStateStoreIsMadeDurableNowAndThen(t *testing.T) {
	k := openKept(t, vfs.New(pebblevfs.NewMem()), dataDir)
	create(t, k.Log, 1)
	k.FlushInTime(0)
	if got := k.StateDurable(); got != 0 {
		t.Errorf("durable up to %d at once", got)
	}
	k.FlushInTime(time.Hour)
	if got := k.StateDurable(); got != 1 {
		t.Errorf("durable up to %d after an hour", got)
	}
	produce(t, k.Log, 1, records("x", 1))
	k.FlushInTime(time.Hour + time.Second)
	if got := k.StateDurable(); got != 1 {
		t.Errorf("durable up to %d a second later", got)
	}
	must(t, k.Close())
	if got := k.StateDurable(); got != 2 {
		t.Errorf("durable up to %d after a close", got)
	}
}

// On a disk that is full to the last byte log starts cannot be moved, but what
// nobody needs any more is freed all the same.
func TestAFullDiskDoesNotKeepDeadSegments(t *testing.T) {
	fs := vfstest.New(pebblevfs.NewMem())
	k := openKept(t, vfs.New(fs), dataDir)
	create(t, k.Log, 1)
	create(t, k.Log, 2)
	for p := entry.Partition(1); p <= 2; p++ {
		produce(t, k.Log, p, at(1000, 100))
		must(t, k.Roll())
	}
	k.AwaitSealed()
	k.keep(2, consumequeue.Retention{Ms: 1, Bytes: -1})
	if _, err := k.Do(entry.TypeDeleteTopic, 1, nil); err != nil {
		t.Fatal(err)
	}
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == vfstest.Write && ofSegment(op) {
			return vfstest.ENOSPC
		}
		return nil
	})
	if err := k.Retain(9000); kerr.Of(err) != kerr.KafkaStorageError {
		t.Errorf("retain: %v", err)
	}
	if got := fmt.Sprint(k.LiveSegments()); got != "[2 3]" {
		t.Errorf("segments %s", got)
	}
	k.wantBounds(t, 2, 0, 1)
	fs.Decide(nil)
	must(t, k.Retain(9000))
	if got := fmt.Sprint(k.LiveSegments()); got != "[3]" {
		t.Errorf("with room, segments %s", got)
	}
	must(t, k.Close())
}
