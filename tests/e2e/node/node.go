package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Limits are generous: they only bound how long a broken program holds a test.
const (
	startLimit = time.Minute
	stopLimit  = 30 * time.Second
)

// Options say what to start. The zero value is a program with its defaults over
// an empty folder.
type Options struct {
	// Dir is the data folder; Start makes one that goes with the test if it is "".
	Dir string
	// Set are settings, as name=value.
	Set []string
	// Listen are listeners to use instead of one on 127.0.0.1, as the setting
	// listeners takes them. Addr is that of the first.
	Listen string
	// Env is added to the environment.
	Env []string
	// MayLogErrors is set by tests that make the program log errors.
	MayLogErrors bool
	// MayBeDamaged is set by tests that damage the data folder.
	MayBeDamaged bool
	// MayEndBadly is set by tests that make the program end with another exit
	// code than 0.
	MayEndBadly bool
	// Console leaves the log in the format for people; only its text is known then.
	Console bool
}

// Node is a sluice program of one test. Its methods may be called by several
// goroutines at once, except those that start and end the program.
type Node struct {
	t       testing.TB
	options Options
	dir     string
	addr    string // of the first listener
	http    string
	logs    journal
	process *process // nil while none runs
}

// process is one run of the program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // set before exited is closed
}

// Start runs a node for a test and looks it over at the test's end.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	n, err := Launch(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Launch is Start for programs that may fail to start.
func Launch(t testing.TB, o Options) (*Node, error) {
	t.Helper()
	n := &Node{t: t, options: o, dir: o.Dir}
	if n.dir == "" {
		n.dir = t.TempDir()
	}
	n.logs.init()
	if err := n.launch(); err != nil {
		return nil, err
	}
	t.Cleanup(n.finish)
	return n, nil
}

// Dir returns the data folder.
func (n *Node) Dir() string { return n.dir }

// Addr returns the host:port that clients start from.
func (n *Node) Addr() string { return n.addr }

// PID returns the id of the running process.
func (n *Node) PID() int { return n.process.cmd.Process.Pid }

// Set adds settings for the next start. A later value of a name counts.
func (n *Node) Set(settings ...string) { n.options.Set = append(n.options.Set, settings...) }

// Restart starts the program again after Kill or Stop: over the same folder and
// on the same ports.
func (n *Node) Restart() {
	n.t.Helper()
	// A connection of another program may sit on the port for a moment.
	for deadline := time.Now().Add(startLimit); ; {
		err := n.launch()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "address already in use") || time.Now().After(deadline) {
			n.t.Fatal(err)
		}
	}
}

// TryRestart is Restart for programs that may fail to start.
func (n *Node) TryRestart() error { return n.launch() }

// RestartToKill starts the program again and kills it after a time, ready or
// not.
func (n *Node) RestartToKill(after time.Duration) {
	n.t.Helper()
	if _, err := n.begin(); err != nil {
		n.t.Fatal(err)
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.process.exited:
	}
	n.Kill()
}

func (n *Node) launch() error {
	from, err := n.begin()
	if err != nil {
		return err
	}
	if err := n.await(from); err != nil {
		if n.process != nil {
			n.Kill()
		}
		return err
	}
	return nil
}

// begin starts the program. It logs from line from on.
func (n *Node) begin() (from int, err error) {
	if n.process != nil {
		return 0, errors.New("the node runs already")
	}
	listen, http := n.options.Listen, "127.0.0.1:0"
	if listen == "" {
		listen = "PLAINTEXT://127.0.0.1:0"
	}
	if n.addr != "" {
		if n.options.Listen == "" {
			listen = "PLAINTEXT://" + n.addr
		}
		http = n.http
	}
	args := []string{"serve", "--data", n.dir, "--http", http, "--set", "listeners=" + listen}
	if !n.options.Console {
		args = append(args, "--set", "log.format=json")
	}
	for _, s := range append(strings.Fields(os.Getenv(everywhere)), n.options.Set...) {
		args = append(args, "--set", s)
	}
	p := &process{cmd: exec.Command(os.Getenv(variable), args...), exited: make(chan struct{})}
	p.cmd.Env = append(environment(), n.options.Env...)
	p.cmd.SysProcAttr = tied()
	pr, pw, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	p.cmd.Stdout, p.cmd.Stderr = pw, pw
	if err := p.cmd.Start(); err != nil {
		return 0, errors.Join(err, pr.Close(), pw.Close())
	}
	_ = pw.Close() // the program has its own
	from = n.logs.len()
	read := make(chan struct{})
	// Ends when the program has closed its output, by ending at the latest.
	go func() {
		defer close(read)
		n.logs.read(pr)
		_ = pr.Close() // only read from
	}()
	// Ends with the program.
	go func() {
		p.err = p.cmd.Wait()
		<-read
		close(p.exited)
	}()
	n.process = p
	return from, nil
}

// await returns when the program that logs from line from on takes requests.
func (n *Node) await(from int) error {
	ctx, cancel := context.WithTimeout(n.t.Context(), startLimit)
	defer cancel()
	p := n.process
	listening, err := n.logs.wait(ctx, from, p.exited, func(l Line) bool { return l.Message == "listening" })
	if err != nil {
		select {
		case <-p.exited:
			n.process = nil
			err = fmt.Errorf("sluice did not start: %w", p.err)
		default:
			err = fmt.Errorf("sluice did not say that it listens: %w", err)
			n.dump()
		}
		return fmt.Errorf("%w\n%s", err, n.logs.text(from))
	}
	web, ok := n.logs.find(from, func(l Line) bool { return l.Message == "listening for http" })
	if !ok {
		return errors.New("sluice does not say where it listens for http")
	}
	n.addr, n.http = listening.Text("address"), web.Text("address")
	return nil
}

// Kill ends the program as a crash would, and returns when it is gone.
func (n *Node) Kill() {
	_ = n.process.cmd.Process.Kill() // gone already is as good
	<-n.process.exited
	n.process = nil
}

// Stop asks the program to stop, and fails the test if it does not end well.
func (n *Node) Stop() {
	n.t.Helper()
	if err := n.stop(); err != nil {
		n.t.Error(err)
	}
}

func (n *Node) stop() error {
	p := n.process
	n.process = nil
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-p.exited:
		if p.err != nil && !n.options.MayEndBadly {
			return fmt.Errorf("sluice ended badly: %w\n%s", p.err, n.logs.text(0))
		}
		return nil
	case <-timer.C:
		n.process = p
		n.dump()
		return fmt.Errorf("sluice did not stop within %v\n%s", stopLimit, n.logs.text(0))
	}
}

// dump ends a program that hangs so that it logs the stacks of its goroutines.
func (n *Node) dump() {
	p := n.process
	n.process = nil
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		n.t.Log(err)
	}
	<-p.exited
}

// Exited is closed when the running program has ended, for whatever reason.
func (n *Node) Exited() <-chan struct{} { return n.process.exited }

// Signal sends a signal to the program.
func (n *Node) Signal(s os.Signal) {
	n.t.Helper()
	if err := n.process.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// finish ends the node and holds it to what is true of every run.
func (n *Node) finish() {
	if n.process != nil {
		n.Stop()
	}
	if bad, ok := n.logs.find(0, func(l Line) bool { return l.Level == "error" || l.Level == "" }); ok && !n.options.MayLogErrors {
		n.t.Errorf("sluice logged an error: %s", bad.Raw)
	}
	if !n.options.MayBeDamaged {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		o, err := run(ctx, nil, "log", "verify", n.dir)
		if err != nil || o.Code != 0 {
			n.t.Errorf("log verify of the data folder: exit code %d, %v\n%s%s", o.Code, err, o.Stdout, o.Stderr)
		}
	}
	if n.t.Failed() {
		n.t.Logf("what sluice logged:\n%s", n.logs.text(max(0, n.logs.len()-shownLines)))
	}
}

// shownLines is how much of the log a failed test shows.
const shownLines = 60

// Dial connects to the node; the connection is closed with the test.
func (n *Node) Dial() net.Conn {
	n.t.Helper()
	c, err := net.DialTimeout("tcp", n.addr, startLimit)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}
