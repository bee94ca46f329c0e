package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// request is one operation that a driver is asked for; see tests/clients/README.md.
type request struct {
	Op                string            `json:"op"`
	Topic             string            `json:"topic,omitempty"`
	Partition         int32             `json:"partition"`
	Partitions        int32             `json:"partitions,omitempty"`
	Configs           map[string]string `json:"configs,omitempty"`
	Kind              string            `json:"kind,omitempty"`
	Name              string            `json:"name,omitempty"`
	Keys              []string          `json:"keys,omitempty"`
	Mode              string            `json:"mode,omitempty"`
	Changes           []change          `json:"changes,omitempty"`
	Records           []record          `json:"records,omitempty"`
	Codec             string            `json:"codec,omitempty"`
	Acks              string            `json:"acks,omitempty"`
	Idempotent        bool              `json:"idempotent,omitempty"`
	MaxBytes          int               `json:"max_bytes,omitempty"`
	PartitionMaxBytes int               `json:"partition_max_bytes,omitempty"`
	Offset            int64             `json:"offset"`
	Count             int               `json:"count,omitempty"`
	At                string            `json:"at,omitempty"`
	Args              []string          `json:"args,omitempty"`
	Group             string            `json:"group,omitempty"`
	ID                string            `json:"id,omitempty"`
	Step              string            `json:"step,omitempty"`
	Isolation         string            `json:"isolation,omitempty"`
}

type change struct {
	Key   string  `json:"key"`
	Op    string  `json:"op"` // set, delete, append, subtract
	Value *string `json:"value"`
}

type record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

type response struct {
	Code        int16             `json:"code"`
	Error       string            `json:"error"`
	Unsupported bool              `json:"unsupported"`
	Brokers     int               `json:"brokers"`
	Cluster     bool              `json:"cluster"`
	Controller  bool              `json:"controller"`
	Names       []string          `json:"names"`
	Partitions  int32             `json:"partitions"`
	Replicas    int               `json:"replicas"`
	Internal    bool              `json:"internal"`
	Configs     map[string]string `json:"configs"`
	Offsets     []int64           `json:"offsets"`
	Offset      int64             `json:"offset"`
	Timestamp   int64             `json:"timestamp"`
	Records     []record          `json:"records"`
	Size        int64             `json:"size"`
	Text        string            `json:"text"`
}

// errUnsupported says that the client has no such operation.
var errUnsupported = errors.New("not applicable")

// refusal is an operation that failed, in the words of a result.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// operationLimit bounds one operation of a driver. The slowest are those that a client retries on
// its own until it gives up.
const operationLimit = 60 * time.Second

// session is a driver at work against one broker. One goroutine uses it.
type session struct {
	client string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    chan []byte
	stderr *tail
	dead   error
}

func startSession(d driver, addr string) (*session, error) {
	s := &session{client: d.name, cmd: d.command(addr), out: make(chan []byte, 1), stderr: &tail{}}
	s.cmd.Stderr = s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	// Ends with the driver's output.
	go func() {
		defer close(s.out)
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 64<<20)
		for sc.Scan() {
			s.out <- append([]byte(nil), sc.Bytes()...)
		}
	}()
	return s, nil
}

// call asks for one operation. The error is errUnsupported, a refusal, or the driver's end.
func (s *session) call(ctx context.Context, r request) (response, error) {
	if s.dead != nil {
		return response{}, s.dead
	}
	b, err := json.Marshal(r)
	if err != nil {
		return response{}, err
	}
	if _, err := s.in.Write(append(b, '\n')); err != nil {
		s.dead = fmt.Errorf("driver ended: %w", err)
		return response{}, s.dead
	}
	timer := time.NewTimer(operationLimit)
	defer timer.Stop()
	select {
	case line, ok := <-s.out:
		if !ok {
			s.dead = fmt.Errorf("driver ended in %s: %s", r.Op, s.stderr.last())
			return response{}, s.dead
		}
		var resp response
		if err := json.Unmarshal(line, &resp); err != nil {
			return response{}, fmt.Errorf("%s: answer of the driver: %w", r.Op, err)
		}
		switch {
		case resp.Unsupported:
			return resp, errUnsupported
		case resp.Code != 0:
			return resp, refusal{kerr.Code(resp.Code).String()}
		case resp.Error != "":
			return resp, refusal{resp.Error}
		}
		return resp, nil
	case <-timer.C:
		s.dead = fmt.Errorf("driver gave no answer to %s within %v: %s", r.Op, operationLimit, s.stderr.last())
	case <-ctx.Done():
		s.dead = ctx.Err()
	}
	s.kill()
	return response{}, s.dead
}

func (s *session) kill() { _ = s.cmd.Process.Kill() }

// close ends the driver.
func (s *session) close() {
	s.in.Close()
	timer := time.AfterFunc(10*time.Second, s.kill)
	for range s.out {
		// Drained, so that the reader ends.
	}
	_ = s.cmd.Wait() // How it ends is no result.
	timer.Stop()
}

// tail keeps the last of what a driver says. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 4096; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

// last returns the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	return lines[len(lines)-1]
}
