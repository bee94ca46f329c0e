package node

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// journal keeps the lines that a program logs, over all its runs.
type journal struct {
	mu    sync.Mutex
	more  *sync.Cond // lines were added, or somebody has to look up
	lines []Line     // guarded by mu
}

func (j *journal) init() { j.more = sync.NewCond(&j.mu) }

func (j *journal) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := in.ReadString('\n')
		if text = strings.TrimRight(text, "\n"); text != "" {
			j.mu.Lock()
			j.lines = append(j.lines, parseLine(text))
			j.more.Broadcast()
			j.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

func (j *journal) since(from int) []Line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Line(nil), j.lines[min(from, len(j.lines)):]...)
}

func (j *journal) text(from int) string {
	var b strings.Builder
	for _, l := range j.since(from) {
		b.WriteString(l.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}

func (j *journal) find(from int, match func(Line) bool) (Line, bool) {
	for _, l := range j.since(from) {
		if match(l) {
			return l, true
		}
	}
	return Line{}, false
}

// wake lets those who wait look up.
func (j *journal) wake() {
	j.mu.Lock() // or one who is about to wait would sleep through it
	defer j.mu.Unlock()
	j.more.Broadcast()
}

// wait returns the first matching line from line from on, as soon as there is
// one; or an error when the context ends, or ended is closed, before.
func (j *journal) wait(ctx context.Context, from int, ended <-chan struct{}, match func(Line) bool) (Line, error) {
	stop := context.AfterFunc(ctx, j.wake)
	defer stop()
	gone := make(chan struct{})
	defer close(gone)
	// Ends with this call.
	go func() {
		select {
		case <-ended:
			j.wake()
		case <-gone:
		}
	}()
	j.mu.Lock()
	defer j.mu.Unlock()
	for next := from; ; {
		for ; next < len(j.lines); next++ {
			if match(j.lines[next]) {
				return j.lines[next], nil
			}
		}
		if ctx.Err() != nil {
			return Line{}, ctx.Err()
		}
		select {
		case <-ended:
			return Line{}, errors.New("the program has ended")
		default:
		}
		j.more.Wait()
	}
}
