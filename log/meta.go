package log

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/vfs"
)

// metaVersion is the version of the layout of a data folder. A folder with a
// larger one was written by a newer Sluice and is not touched.
const metaVersion = 1

const maxMetaBytes = 64 << 10

// ErrNewerFolder says that a data folder was written by a newer version.
var ErrNewerFolder = errors.New("data folder of a newer version")

// Meta is what a data folder says of itself, in the file meta.json.
type Meta struct {
	Version   int    `json:"version"`
	ClusterID string `json:"cluster.id"`
	NodeID    int32  `json:"node.id"`
}

func metaName(fs *vfs.FS, dir string) string { return fs.Join(dir, "meta.json") }

// loadMeta reads the folder's meta file; ok is false where there is none.
func loadMeta(fs *vfs.FS, dir string) (m Meta, ok bool, err error) {
	name := metaName(fs, dir)
	file, err := fs.Open(name)
	if vfs.NotExist(err) {
		return Meta{}, false, nil
	}
	if err != nil {
		return Meta{}, false, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return Meta{}, false, err
	}
	if size > maxMetaBytes {
		return Meta{}, false, fmt.Errorf("%w: %s: %d bytes, want at most %d", ErrCorrupt, name, size, maxMetaBytes)
	}
	text := make([]byte, size)
	if _, err := file.ReadAt(text, 0); err != nil {
		return Meta{}, false, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return Meta{}, false, fmt.Errorf("%w: %s: not a meta file: %w", ErrCorrupt, name, err)
	}
	switch {
	case m.Version > metaVersion:
		return Meta{}, false, fmt.Errorf("%s: %w: it has version %d, this Sluice knows up to %d", name, ErrNewerFolder, m.Version, metaVersion)
	case m.Version < 1 || m.ClusterID == "":
		return Meta{}, false, fmt.Errorf("%w: %s: version %d, cluster id %q", ErrCorrupt, name, m.Version, m.ClusterID)
	}
	return m, true, nil
}

// saveMeta writes the folder's meta file, durably.
func saveMeta(fs *vfs.FS, dir string, m Meta) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	name := metaName(fs, dir)
	temporary := name + ".tmp"
	file, err := fs.Create(temporary)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(append(text, '\n'), 0)
	if err == nil {
		err = file.SyncData()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(temporary, name)
	}
	if err == nil {
		err = fs.SyncDir(dir)
	}
	return err
}
