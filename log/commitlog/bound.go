package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// boundName is the name of the file that says what is durable for sure. See
// FORMAT.md.
const boundName = "durable"

// Where the fields of the durable bound are. All are little endian.
const (
	boundMagic   uint32 = 0x42444c53 // "SLDB"
	boundVersion uint32 = 1

	boundMagicAt    = 0
	boundChecksumAt = 4 // CRC-32C of what follows
	boundVersionAt  = 8
	boundSegmentAt  = 12
	boundEndAt      = 16
	boundChainAt    = 20
	boundIndexAt    = 24
	boundTermAt     = 32
	boundTimeAt     = 40
	boundCleanAt    = 48 // 1 after a clean end, else 0; 4 bytes
	boundBytes      = 52
)

// bound is a place between two entries up to which everything was durable at
// some time. The zero value is the beginning of the log.
type bound struct {
	segment uint32
	end     int64
	tail    segment.Tail
	clean   bool // the log was closed: nothing was ever written behind the bound
}

// boundFile notes the durable bound. It is written after each fdatasync of the
// log but not synced itself: what a crash leaves is an older bound, or none,
// which is true as well.
type boundFile struct {
	fs  *vfs.FS
	dir string

	mu   sync.Mutex
	file *vfs.File        // guarded by mu; nil before the first note
	buf  [boundBytes]byte // guarded by mu
}

// read returns the bound in the folder: the zero bound when there is none that
// can be understood.
func (f *boundFile) read() (bound, error) {
	file, err := f.fs.Open(f.fs.Join(f.dir, boundName))
	if vfs.NotExist(err) {
		return bound{}, nil
	}
	if err != nil {
		return bound{}, err
	}
	defer file.Close()
	buf := make([]byte, boundBytes)
	if n, err := file.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		return bound{}, err
	} else if n < boundBytes {
		return bound{}, nil
	}
	le := binary.LittleEndian
	if le.Uint32(buf[boundMagicAt:]) != boundMagic {
		return bound{}, nil
	}
	if v := le.Uint32(buf[boundVersionAt:]); v > boundVersion {
		return bound{}, &segment.DamageError{
			File: file.Name(), Kind: segment.ErrVersion, Detail: fmt.Sprintf("version %d", v),
		}
	}
	if le.Uint32(buf[boundChecksumAt:]) != boundChecksum(buf) {
		return bound{}, nil
	}
	return bound{
		segment: le.Uint32(buf[boundSegmentAt:]),
		end:     int64(le.Uint32(buf[boundEndAt:])),
		tail: segment.Tail{
			Index: entry.Index(le.Uint64(buf[boundIndexAt:])),
			Term:  entry.Term(le.Uint64(buf[boundTermAt:])),
			Time:  entry.Time(le.Uint64(buf[boundTimeAt:])),
			Chain: le.Uint32(buf[boundChainAt:]),
		},
		clean: le.Uint32(buf[boundCleanAt:]) == 1,
	}, nil
}

func boundChecksum(buf []byte) uint32 { return segment.Checksum(buf[boundVersionAt:boundBytes]) }

// note writes the bound, without making it durable.
func (f *boundFile) note(b bound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		file, err := f.fs.OpenReadWrite(f.fs.Join(f.dir, boundName))
		if err != nil {
			return err
		}
		f.file = file
	}
	le := binary.LittleEndian
	buf := f.buf[:]
	le.PutUint32(buf[boundMagicAt:], boundMagic)
	le.PutUint32(buf[boundVersionAt:], boundVersion)
	le.PutUint32(buf[boundSegmentAt:], b.segment)
	le.PutUint32(buf[boundEndAt:], uint32(b.end))
	le.PutUint32(buf[boundChainAt:], b.tail.Chain)
	le.PutUint64(buf[boundIndexAt:], uint64(b.tail.Index))
	le.PutUint64(buf[boundTermAt:], uint64(b.tail.Term))
	le.PutUint64(buf[boundTimeAt:], uint64(b.tail.Time))
	le.PutUint32(buf[boundCleanAt:], 0)
	if b.clean {
		le.PutUint32(buf[boundCleanAt:], 1)
	}
	le.PutUint32(buf[boundChecksumAt:], boundChecksum(buf))
	_, err := f.file.WriteAt(buf, 0)
	return err
}

// sync makes the newest note durable.
func (f *boundFile) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return f.file.SyncData()
}

func (f *boundFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}
