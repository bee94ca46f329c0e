package commitlog

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// temporary ends the names of files that mean nothing after a restart.
const temporary = ".tmp"

// folder is what was found in the folder of a log.
type folder struct {
	// segments are those with a valid header, by ascending number.
	segments []foundSegment
	// unbegun are files behind them without a valid header: made ready for a
	// segment that was never begun, or begun with a write that a crash tore.
	unbegun []foundSegment
	// leftovers are the names of temporary files.
	leftovers []string
}

// foundSegment is a file with the name of a segment.
type foundSegment struct {
	name   string
	number uint32
	bytes  int64
	header segment.Header
	err    error // what is wrong with the header page, where it is not valid
}

// findSegments lists the folder and reads the header pages in it. A folder that
// is not there is an empty one. A bad header before a good one is damage.
func findSegments(fs *vfs.FS, dir string) (folder, error) {
	var found folder
	all, leftovers, err := listSegments(fs, dir)
	if err != nil {
		return found, err
	}
	found.leftovers = leftovers
	last := len(all)
	for last > 0 && all[last-1].err != nil {
		last--
		if errors.Is(all[last].err, segment.ErrVersion) {
			return found, all[last].err
		}
	}
	found.segments, found.unbegun = all[:last], all[last:]
	for _, s := range found.segments {
		if s.err != nil {
			return found, s.err
		}
	}
	return found, nil
}

// listSegments reads the header pages of all segment files in the folder, by
// ascending number, and finds the names of temporary files.
func listSegments(fs *vfs.FS, dir string) (all []foundSegment, leftovers []string, err error) {
	names, err := fs.List(dir)
	if vfs.NotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names { // sorted, and numbers have a fixed width
		if number, ok := segment.ParseFileName(name); ok {
			s, err := readHeader(fs, fs.Join(dir, name), number)
			if err != nil {
				return nil, nil, err
			}
			s.name = name
			all = append(all, s)
		} else if strings.HasSuffix(name, temporary) {
			leftovers = append(leftovers, name)
		}
	}
	return all, leftovers, nil
}

// readHeader reads the header page of a segment file. Damage is noted in what is
// returned; the error is one of reading.
func readHeader(fs *vfs.FS, path string, number uint32) (foundSegment, error) {
	s := foundSegment{number: number}
	f, err := fs.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	if s.bytes, err = f.Size(); err != nil {
		return s, err
	}
	page := make([]byte, segment.HeaderBytes)
	n, err := f.ReadAt(page, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	s.header, s.err = segment.ParseHeader(page[:n])
	if s.err == nil && s.header.Number != number {
		s.err = &segment.DamageError{
			Kind: segment.ErrChain, Detail: fmt.Sprintf("file is that of segment %d", s.header.Number),
		}
	}
	var damage *segment.DamageError
	if errors.As(s.err, &damage) {
		damage.File = path
	}
	return s, nil
}
