package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// rawDisk writes blocks of a size into a file that has its room already, with
// an fdatasync behind each, for a time, and returns bytes a second.
func rawDisk(dir string, block int, d time.Duration) (float64, error) {
	const room = 256 << 20
	name := filepath.Join(dir, fmt.Sprintf("raw-%d", block))
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer os.Remove(name)
	defer f.Close()
	zeroes := make([]byte, 1<<20)
	for at := int64(0); at < room; at += int64(len(zeroes)) {
		if _, err := f.WriteAt(zeroes, at); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	data := make([]byte, block)
	for i := range data {
		data[i] = byte(i * 131)
	}
	written, at := int64(0), int64(0)
	began := time.Now()
	for time.Since(began) < d {
		if at+int64(block) > room {
			at = 0
		}
		if _, err := f.WriteAt(data, at); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		at += int64(block)
		written += int64(block)
	}
	return float64(written) / time.Since(began).Seconds(), nil
}

// rawLoopback sends pieces of a size over one loopback connection for a time,
// and returns bytes a second.
func rawLoopback(piece int, d time.Duration) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	received := make(chan int64, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer c.Close()
		n, _ := io.Copy(sink{}, c) // ends when the sender closes
		received <- n
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	data := make([]byte, piece)
	began := time.Now()
	for time.Since(began) < d {
		if _, err := c.Write(data); err != nil {
			c.Close()
			return 0, err
		}
	}
	c.Close()
	n := <-received
	return float64(n) / time.Since(began).Seconds(), nil
}

// sink takes everything through a buffer of its own, as a reader would.
type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }

// rawRead reads the files in a folder from the disk (their pages are dropped
// from memory first) and returns bytes a second.
func rawRead(dir string) (float64, error) {
	var total int64
	buffer := make([]byte, 1<<20)
	var took time.Duration
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		began := time.Now()
		n, err := io.CopyBuffer(sink{}, struct{ io.Reader }{f}, buffer)
		took += time.Since(began)
		total += n
		return err
	})
	if err != nil || took == 0 {
		return 0, err
	}
	return float64(total) / took.Seconds(), nil
}

// dropPages asks the kernel to forget the pages of the files in a folder, so
// that reading them is reading the disk.
func dropPages(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return nil // gone meanwhile
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return nil // not a file that can be synced
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
