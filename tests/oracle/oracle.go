package oracle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// startLimit is how long a node may take to become ready: two seconds on an idle machine.
	startLimit = 2 * time.Minute
	// stopLimit is how long a node may take to stop before it is killed.
	stopLimit = 30 * time.Second
	// exitPortTaken is Oracle.java's code for a port that somebody else took in between.
	exitPortTaken = 2
	// startTries bounds how often a start is repeated because of that.
	startTries = 4
)

// Options changes how a node is started. The zero value is a node with Kafka's defaults, except for
// the replication factors of its internal topics, which are 1.
type Options struct {
	// Config has broker settings by name that override the defaults.
	Config map[string]string
	// Dir is the folder that the node's data folder is made in; "" is the system's temporary one.
	Dir string
	// HeapMB is the largest Java heap in MiB; 0 means 512.
	HeapMB int
	// Flags are Java's; nil means those for a node that lives for minutes on few cores.
	Flags []string
}

// Broker is a running Apache Kafka node. Its methods may be called by several goroutines at once.
type Broker struct {
	// Addr is the host:port that clients start from.
	Addr string
	// Version is Kafka's version.
	Version string

	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *tail
	exited chan struct{}
	err    error // set before exited is closed
	once   sync.Once
}

// Start runs a node for one test and stops it at the test's end. See Options for what may be
// changed; at most one is taken.
func Start(t testing.TB, options ...Options) *Broker {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	b, err := Run(context.Background(), o)
	if errors.Is(err, ErrNoJava) && os.Getenv("SLUICE_ORACLE") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Run starts a node and returns when it serves requests. The context bounds the start only.
func Run(ctx context.Context, o Options) (*Broker, error) {
	inst, err := Prepare(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		b, err := start(ctx, inst, o)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == exitPortTaken && try < startTries {
			continue
		}
		return b, err
	}
}

func start(ctx context.Context, inst Installation, o Options) (*Broker, error) {
	heap, dir := o.HeapMB, o.Dir
	if heap == 0 {
		heap = 512
	}
	if dir == "" {
		dir = os.TempDir()
	}
	args := o.Flags
	if args == nil {
		// Start fast, compile little, collect simply.
		args = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
	}
	args = append(slices.Clone(args), fmt.Sprintf("-Xmx%dm", heap), "-cp", inst.ClassPath, "Oracle", dir)
	for _, name := range slices.Sorted(maps.Keys(o.Config)) {
		args = append(args, name+"="+o.Config[name])
	}

	b := &Broker{
		Version: inst.Version,
		cmd:     exec.Command("java", args...),
		stderr:  &tail{max: 16 << 10},
		exited:  make(chan struct{}),
	}
	b.cmd.Stderr = b.stderr
	stdin, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("oracle: start: %w", err)
	}
	b.stdin = stdin
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("oracle: start: %w", err)
	}
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("oracle: start: %w", err)
	}

	ready := make(chan string, 1)
	// Ends when the node closes its standard output, at the latest when it exits.
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		ready <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, stdout)
		b.err = b.cmd.Wait()
		close(b.exited)
	}()

	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case line := <-ready:
		addr, ok := strings.CutPrefix(line, "ready ")
		if !ok {
			<-b.exited
			return nil, fmt.Errorf("oracle: Kafka did not start: %w\n%s", b.err, b.stderr)
		}
		b.Addr = addr
		return b, nil
	case <-ctx.Done():
		b.kill()
		return nil, fmt.Errorf("oracle: start: %w", ctx.Err())
	case <-timer.C:
		b.kill()
		return nil, fmt.Errorf("oracle: Kafka was not ready after %v\n%s", startLimit, b.stderr)
	}
}

// Close stops the node and waits until it and its data are gone. Closing again does nothing.
func (b *Broker) Close() error {
	var err error
	b.once.Do(func() {
		b.stdin.Close()
		select {
		case <-b.exited:
			if b.err != nil {
				err = fmt.Errorf("oracle: Kafka ended badly: %w\n%s", b.err, b.stderr)
			}
		case <-time.After(stopLimit):
			b.kill()
			err = fmt.Errorf("oracle: Kafka did not stop within %v and was killed", stopLimit)
		}
	})
	return err
}

// PID is the process id of the node.
func (b *Broker) PID() int { return b.cmd.Process.Pid }

// Exited is closed when the node's process has ended, for whatever reason.
func (b *Broker) Exited() <-chan struct{} { return b.exited }

func (b *Broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.exited
}

// tail keeps the last max bytes of what is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	if over := len(w.buf) - w.max; over > 0 {
		w.buf = append(w.buf[:0], w.buf[over:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.buf)
}
