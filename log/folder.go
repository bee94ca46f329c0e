package log

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/sluicemq/sluice/log/vfs"
)

var (
	// ErrInUse says that another process, or another Log in this one, has the data
	// folder open.
	ErrInUse = errors.New("data folder is in use by another broker")
	// ErrNode says that a data folder belongs to another node.
	ErrNode = errors.New("data folder of another node")
)

func (l *Log) commitDir() string { return l.options.FS.Join(l.options.Dir, "commitlog") }
func (l *Log) stateDir() string  { return l.options.FS.Join(l.options.Dir, "state") }

// openFolder locks the data folder and reads what it says of itself, or makes
// one, of which the name and all in it is durable.
func (l *Log) openFolder() error {
	fs, dir := l.options.FS, l.options.Dir
	parents, made, err := makeDir(fs, dir)
	if err != nil {
		return err
	}
	if l.lock, err = fs.Lock(fs.Join(dir, "lock")); err != nil {
		// A lock that is held has no path in its error, unlike a file that cannot
		// be made.
		if path := new(iofs.PathError); !errors.As(err, &path) {
			err = fmt.Errorf("%w: %w", ErrInUse, err)
		}
		return err
	}
	var ok bool
	l.meta, ok, err = loadMeta(fs, dir)
	switch {
	case err != nil:
		return err
	case ok && l.meta.NodeID != l.options.Meta.NodeID:
		return fmt.Errorf("%s: %w: it is of node %d, this is node %d", metaName(fs, dir), ErrNode, l.meta.NodeID, l.options.Meta.NodeID)
	case ok:
		// A start that was killed may have left names that are not durable.
		if err := fs.MkdirAll(l.commitDir()); err != nil {
			return err
		}
		return fs.SyncDir(dir)
	}
	for _, part := range []string{l.commitDir(), l.stateDir()} {
		if names, err := fs.List(part); err == nil && len(names) > 0 {
			return fmt.Errorf("%w: %s is missing, but there is %s", ErrCorrupt, metaName(fs, dir), fs.Join(part, names[0]))
		}
	}
	if err := fs.MkdirAll(l.commitDir()); err != nil {
		return err
	}
	for i, parent := range parents {
		if err := fs.SyncDir(parent); err != nil && i < made {
			return err
		}
	}
	l.recovery.New = true
	l.meta = l.options.Meta
	l.meta.Version = metaVersion
	return saveMeta(fs, dir, l.meta) // the folder counts from here on
}

// makeDir makes a directory with all parents that are missing, and returns the
// directories from its parent up. The first made of them hold names that were
// just made, and must be synced before the directory is durable. The others may
// hold names that an earlier start has made and was killed before it could sync
// them; most likely they are not ours, and we may not even read them.
func makeDir(fs *vfs.FS, dir string) (parents []string, made int, err error) {
	for d := dir; ; {
		up := fs.Base().PathDir(d)
		if up == d {
			break
		}
		parents = append(parents, up)
		if made == len(parents)-1 {
			_, err := fs.Size(d)
			if err != nil && !vfs.NotExist(err) {
				return nil, 0, err
			}
			if err != nil {
				made++
			}
		}
		d = up
	}
	return parents, made, fs.MkdirAll(dir)
}
