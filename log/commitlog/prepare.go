package commitlog

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

const (
	// prepareName is the name of a file while it is filled with zeroes.
	prepareName = "prepare" + temporary
	// fillBytes is how much is filled and synced in one step. It is small enough
	// not to hold up the append goroutine's fdatasync for long.
	fillBytes = 1 << 20
)

// preparer makes the file of the next segment ready ahead of use, in a goroutine
// of its own: a file that was dropped, if there is one, or else a new one that is
// filled with zeroes, since a write into a file that has its room already is made
// durable with less work.
//
// A ready file has its final name, a header page of zeroes, and all of that is
// durable. The filling keeps pace with the active segment: it begins when that is
// at a quarter and is done when it is at three quarters, so that it takes from the
// disk no more than twice what the log itself writes. It pauses while groups are
// large, since then it would cost more than it saves. When the file is needed
// earlier, it is taken as far as it is filled; the rest is a hole.
type preparer struct {
	fs   *vfs.FS
	dir  string
	size int64
	done sync.WaitGroup
	o    Options

	mu      sync.Mutex
	changed sync.Cond // signals changes of all below, which mu guards

	want    uint32 // the segment to make a file for; 0 for none
	allowed int64  // how much may be filled by now
	hurry   bool   // somebody waits in take
	stopped bool

	ready *vfs.File // the file for want
	err   error     // why there is none; it is not tried again before take
	spare string    // name of a dropped file that may be used; "" for none
}

func newPreparer(o Options) *preparer {
	p := &preparer{fs: o.FS, dir: o.Dir, size: o.SegmentBytes, o: o}
	p.changed.L = &p.mu
	return p
}

// run is the prepare goroutine. Replay starts it, close ends it. It owns the file
// that is being prepared.
func (p *preparer) run() {
	defer p.done.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for !p.stopped && (p.want == 0 || p.ready != nil || p.err != nil) {
			p.changed.Wait()
		}
		if p.stopped {
			return
		}
		number, spare := p.want, p.spare
		p.spare = ""
		p.mu.Unlock()
		f, err := p.prepare(number, spare)
		p.mu.Lock()
		p.ready, p.err = f, err
		p.changed.Broadcast()
	}
}

// prepare makes the file for the segment with the number.
func (p *preparer) prepare(number uint32, spare string) (*vfs.File, error) {
	if spare != "" {
		f, err := p.recycle(number, spare)
		if err == nil {
			p.o.Events.Prepared(number, true, 0)
			return f, nil
		}
		// A file that makes trouble is not worth keeping: a new one may do better.
		p.o.Events.PrepareFailed(number, err)
		_ = p.fs.Remove(p.fs.Join(p.dir, spare))
	}
	f, filled, err := p.create(number)
	if err != nil {
		if !errors.Is(err, ErrClosed) {
			p.o.Events.PrepareFailed(number, err)
		}
		return nil, err
	}
	p.o.Events.Prepared(number, false, filled)
	return f, nil
}

// recycle makes the dropped file ready. The old header has to be gone for sure
// before the file has a segment's name.
func (p *preparer) recycle(number uint32, spare string) (*vfs.File, error) {
	f, err := p.fs.OpenReadWrite(p.fs.Join(p.dir, spare))
	if err != nil {
		return nil, err
	}
	if err = f.ZeroFill(0, segment.HeaderBytes); err == nil {
		err = p.finish(f, spare, number)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// create makes a new file ready. It returns how much of it was filled.
func (p *preparer) create(number uint32) (*vfs.File, int64, error) {
	path := p.fs.Join(p.dir, prepareName)
	f, err := p.fs.Create(path)
	if err != nil {
		return nil, 0, err
	}
	filled, err := p.fill(f)
	if err == nil {
		err = p.finish(f, prepareName, number)
	}
	if err != nil {
		_ = p.fs.Remove(path) // it may have its final name already, and is replaced then
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, filled, nil
}

// fill writes zeroes for as long as nobody waits for the file.
func (p *preparer) fill(f *vfs.File) (int64, error) {
	if err := f.Extend(p.size); err != nil {
		return 0, err
	}
	var filled int64
	for filled < p.size {
		p.mu.Lock()
		for !p.stopped && !p.hurry && filled >= p.allowed {
			p.changed.Wait()
		}
		stopped, hurry := p.stopped, p.hurry
		p.mu.Unlock()
		if stopped {
			return filled, ErrClosed
		}
		if hurry {
			break
		}
		to := min(filled+fillBytes, p.size)
		if err := f.ZeroFill(filled, to); err != nil {
			return filled, err
		}
		if err := f.SyncData(); err != nil {
			return filled, err
		}
		filled = to
	}
	if filled == 0 {
		// The header page is what makes the file a ready one.
		return 0, f.ZeroFill(0, segment.HeaderBytes)
	}
	return filled, nil
}

// finish gives the file, whose header page is zero, its name for good.
func (p *preparer) finish(f *vfs.File, name string, number uint32) error {
	if err := f.SyncData(); err != nil {
		return err
	}
	if err := p.fs.Rename(p.fs.Join(p.dir, name), p.fs.Join(p.dir, segment.FileName(number))); err != nil {
		return err
	}
	return p.fs.SyncDir(p.dir)
}

// progress tells that the active segment, which number follows, is filled up to
// end, and whether filling the next one with zeroes would pay.
func (p *preparer) progress(number uint32, end int64, fill bool) {
	if end < p.size/4 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready != nil || p.err != nil {
		return
	}
	p.want = number
	if fill {
		p.allowed = 2 * (end - p.size/4)
	}
	p.changed.Broadcast()
}

// take returns the file for the segment with the number. When it is not ready it
// is made so at once, which may fail, for want of room for example. The caller
// may try again.
func (p *preparer) take(number uint32) (*vfs.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want, p.hurry = number, true
	p.err = nil
	p.changed.Broadcast()
	for p.ready == nil && p.err == nil && !p.stopped {
		p.changed.Wait()
	}
	f, err := p.ready, p.err
	p.want, p.hurry, p.allowed, p.ready = 0, false, 0, nil
	if f == nil && err == nil {
		err = ErrClosed
	}
	return f, err
}

// adopt makes the file, which Replay found ready, the one for the number.
func (p *preparer) adopt(number uint32, f *vfs.File) {
	p.mu.Lock()
	p.want, p.ready = number, f
	p.mu.Unlock()
}

// offer gives the name of a file that was dropped. It returns false when the
// preparer has one already.
func (p *preparer) offer(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare != "" || p.stopped {
		return false
	}
	p.spare = name
	return true
}

// close ends the goroutine. A file that is ready stays for the next start.
func (p *preparer) close() error {
	p.mu.Lock()
	p.stopped = true
	p.changed.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
	if p.ready == nil {
		return nil
	}
	f := p.ready
	p.ready = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close the file of the next segment: %w", err)
	}
	return nil
}
