package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = time.Minute
	stopLimit  = 30 * time.Second
)

// ErrNoProgram says that the source tree has no sluice program.
var ErrNoProgram = errors.New("server: there is no cmd/sluice")

// Options says what to start. The zero value is a freshly built program over an empty folder.
type Options struct {
	// Binary is the program; "" builds it from the source tree.
	Binary string
	// Dir is the data folder; Start makes one that goes with the test if it is "".
	Dir string
	// Args are added to the command line.
	Args []string
	// Log gets what the program logs; nil keeps the last part for errors only.
	Log io.Writer
}

// Server is a running sluice program. Its methods may be called by several goroutines at once.
type Server struct {
	// Addr is the host:port that clients start from.
	Addr string
	// Dir is the data folder.
	Dir string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // set before exited is closed

	mu   sync.Mutex
	last []string // guarded by mu: the last lines logged
}

// Start runs a server for one test and stops it at the test's end.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := Run(t.Context(), o)
	if errors.Is(err, ErrNoProgram) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Build builds the program from the source tree around the working folder into dir.
func Build(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("server: find the source tree: %w", err)
	}
	root := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(root, "cmd", "sluice")); err != nil {
		return "", ErrNoProgram
	}
	binary := filepath.Join(dir, "sluice")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/sluice")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("server: build sluice: %w\n%s", err, text)
	}
	return binary, nil
}

// Run starts a server and returns when it listens. The context bounds the start only.
func Run(ctx context.Context, o Options) (*Server, error) {
	if o.Binary == "" {
		dir, err := os.MkdirTemp("", "sluice-build-")
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		defer os.RemoveAll(dir) // The running program keeps its file.
		if o.Binary, err = Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	args := append([]string{
		"serve", "--data", o.Dir, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
	}, o.Args...)
	s := &Server{Dir: o.Dir, cmd: exec.Command(o.Binary, args...), exited: make(chan struct{})}
	s.cmd.Env = environment(os.Environ())
	pr, pw := io.Pipe()
	s.cmd.Stdout, s.cmd.Stderr = pw, pw
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("server: start: %w", err)
	}

	ready := make(chan string, 1)
	// Ends with the program's output.
	go func() {
		sc := bufio.NewScanner(pr)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			if o.Log != nil {
				fmt.Fprintln(o.Log, sc.Text())
			}
			s.keep(sc.Text())
			if addr, ok := listening(sc.Bytes()); ok {
				select {
				case ready <- addr:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, pr)
	}()
	// Ends with the program.
	go func() {
		s.err = s.cmd.Wait()
		pw.Close()
		close(s.exited)
	}()

	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case s.Addr = <-ready:
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("server: sluice did not start: %v\n%s", s.err, s.Tail())
	case <-ctx.Done():
		s.Kill()
		return nil, fmt.Errorf("server: start: %w", ctx.Err())
	case <-timer.C:
		s.Kill()
		return nil, fmt.Errorf("server: sluice did not listen within %v\n%s", startLimit, s.Tail())
	}
}

var address = regexp.MustCompile(`\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost):\d+\b`)

// environment leaves out what is meant for the tests, such as SLUICE_ORACLE: the program takes all that
// begins so for its settings.
func environment(all []string) []string {
	return slices.DeleteFunc(all, func(pair string) bool { return strings.HasPrefix(pair, "SLUICE_") })
}

// listening finds the address in the line that the program logs when clients may connect: a line
// whose message is "listening", be it JSON or plain text.
func listening(text []byte) (string, bool) {
	var fields map[string]any
	if json.Unmarshal(text, &fields) == nil {
		if fields["msg"] != "listening" {
			return "", false
		}
	} else if !bytes.Contains(text, []byte("\tlistening\t")) && !bytes.Contains(text, []byte(" listening ")) ||
		bytes.Contains(text, []byte("http")) {
		return "", false
	}
	addr := address.Find(text)
	return string(addr), addr != nil
}

// Close asks the program to stop and waits for it. Closing a stopped server is no error.
func (s *Server) Close() error {
	select {
	case <-s.exited:
		return nil
	default:
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		if s.err != nil {
			return fmt.Errorf("server: sluice ended badly: %w\n%s", s.err, s.Tail())
		}
		return nil
	case <-time.After(stopLimit):
		s.Kill()
		return fmt.Errorf("server: sluice did not stop within %v and was killed\n%s", stopLimit, s.Tail())
	}
}

// Kill ends the program as a crash would, and waits until it is gone.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// PID is the process id of the program.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Exited is closed when the program has ended, for whatever reason.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// keptLines is how much of the log is kept for errors.
const keptLines = 40

func (s *Server) keep(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, text)
	if len(s.last) > keptLines {
		s.last = s.last[1:]
	}
}

// Tail returns the last lines that the program logged.
func (s *Server) Tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, "\n")
}
