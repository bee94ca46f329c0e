//go:build !linux

package vfs

import (
	"errors"
	"io"
	"os"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// Where the system calls differ, files are used through Pebble's portable file
// only: descriptor returns the invalid one for all of them.

func descriptor(pebblevfs.File) uintptr { return pebblevfs.InvalidFd }

func writeVectored(uintptr, [][]byte, int64) (int64, error) { return 0, io.ErrShortWrite }

func readVectored(uintptr, [][]byte, int64) error { return io.ErrUnexpectedEOF }

func extend(uintptr, int64) error { return nil }

func mapDescriptor(uintptr) ([]byte, func([]byte) error, error) {
	return nil, nil, errors.Join(errors.ErrUnsupported, os.ErrInvalid)
}

func nextData(_ uintptr, from int64) (int64, error) { return from, nil }

func willNeed(uintptr, int64, int64) {}
