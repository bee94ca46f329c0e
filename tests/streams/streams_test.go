package streams

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/tests/oracle"
	"github.com/sluicemq/sluice/tests/server"
)

var (
	against = flag.String("against", "sluice", "sluice or kafka")
	binary  = flag.String("sluice", "", "sluice program to start, instead of building it")
	rounds  = flag.Int("rounds", 6, "how often something is killed")
	seed    = flag.Uint64("seed", 0, "to have the same choices again")
)

const (
	words    = 20    // different ones
	written  = 30000 // of them in all
	programs = 2
	patience = 3 * time.Minute // for all counts to come out
)

func TestWordsAreCountedExactlyOnceUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka Streams")
	}
	for *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("%d rounds, -seed %d", *rounds, *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	classPath := prepare(t)
	b := startBroker(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.UniformBytesPartitioner(1000, false, false, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for topic, partitions := range map[string]int32{"words": 3, "counted": 2} {
		if _, err := adm.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	var running [programs]*program
	for i := range running {
		running[i] = startProgram(t, classPath, b.addr)
	}

	// Words are written all the time that things are killed.
	want := map[string]int{}
	var feed sync.WaitGroup
	feed.Add(1)
	pause := max(time.Duration(*rounds)*3*time.Second/(written/100), time.Millisecond)
	go func() {
		defer feed.Done()
		for n := range written {
			word := fmt.Sprintf("word-%d", rand.IntN(words))
			want[word]++
			cl.Produce(t.Context(), &kgo.Record{Topic: "words", Value: []byte(word)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("write a word: %v", err)
				}
			})
			if n%100 == 0 {
				time.Sleep(pause)
			}
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Errorf("write words: %v", err)
		}
	}()
	for range *rounds {
		time.Sleep(time.Duration(1000+random.IntN(3000)) * time.Millisecond)
		switch random.IntN(3) {
		case 0:
			b.crash()
		case 1:
			i := random.IntN(programs)
			running[i].kill()
			running[i] = startProgram(t, classPath, b.addr)
		case 2: // A program is asked to leave, and another comes.
			i := random.IntN(programs)
			running[i].close()
			running[i] = startProgram(t, classPath, b.addr)
		}
	}
	feed.Wait()

	counts := map[string]int{}
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumeTopics("counted"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := 0
	for seen < written && ctx.Err() == nil && !t.Failed() {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			seen++
			word := string(r.Key)
			if counts[word]++; string(r.Value) != strconv.Itoa(counts[word]) {
				t.Errorf("count %d of %s came out as %s", counts[word], word, r.Value)
			}
		})
	}
	quiet, enough := context.WithTimeout(t.Context(), 2*time.Second)
	defer enough()
	for quiet.Err() == nil {
		reader.PollFetches(quiet).EachRecord(func(r *kgo.Record) { t.Errorf("also came out: %s %s", r.Key, r.Value) })
	}
	for word, n := range want {
		if counts[word] != n {
			t.Errorf("%s was written %d times and counted %d times", word, n, counts[word])
		}
	}
	for _, p := range running {
		p.close()
		if t.Failed() {
			t.Logf("a program said:\n%s", p.output.last())
		}
	}
}

// prepare fetches Kafka Streams and compiles the program, and returns the class path.
func prepare(t *testing.T) string {
	t.Helper()
	if _, err := oracle.Prepare(t.Context()); errors.Is(err, oracle.ErrNoJava) && os.Getenv("SLUICE_ORACLE") != "require" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list, err := oracle.ClassPath(t.Context(), "pom.xml", filepath.Join(dir, "classpath"))
	if err != nil {
		t.Fatal(err)
	}
	classes := filepath.Join(dir, "classes")
	if err := oracle.Compile(t.Context(), list, classes, "Words.java"); err != nil {
		t.Fatal(err)
	}
	return classes + string(os.PathListSeparator) + list
}

// broker is the one under test.
type broker struct {
	t     *testing.T
	addr  string
	start func(addr string) *server.Server // nil for Kafka
	now   *server.Server
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	settings := map[string]string{
		"group.initial.rebalance.delay.ms": "0",
		"group.min.session.timeout.ms":     "1000",
	}
	if *against == "kafka" {
		return &broker{t: t, addr: oracle.Start(t, oracle.Options{Config: settings}).Addr}
	}
	if *binary == "" {
		built, err := server.Build(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		*binary = built
	}
	dir := t.TempDir()
	b := &broker{t: t, start: func(addr string) *server.Server {
		args := []string{"--listen", addr}
		for name, value := range settings {
			args = append(args, "--set", name+"="+value)
		}
		s, err := server.Run(t.Context(), server.Options{Binary: *binary, Dir: dir, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
	b.now = b.start("127.0.0.1:0")
	b.addr = b.now.Addr
	t.Cleanup(func() {
		if err := b.now.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *broker) crash() {
	if b.start == nil {
		return
	}
	b.now.Kill()
	b.now = b.start(b.addr)
}

// program is a running Words.
type program struct {
	cmd    *exec.Cmd
	in     *os.File
	output *output
	ended  bool
}

func startProgram(t *testing.T, classPath, addr string) *program {
	t.Helper()
	p := &program{output: &output{}}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = write
	// Each has a state folder of its own: what it had is restored from the changelog.
	p.cmd = exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", classPath, "Words",
		addr, t.TempDir(), "2")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = read, p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	t.Cleanup(p.kill)
	return p
}

// kill ends the program as a crash would.
func (p *program) kill() {
	if !p.ended {
		_ = p.cmd.Process.Kill()
		p.wait()
	}
}

// close asks the program to end.
func (p *program) close() {
	if !p.ended {
		late := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		p.in.Close()
		p.wait()
		late.Stop()
	}
}

func (p *program) wait() {
	p.ended = true
	p.in.Close()
	_ = p.cmd.Wait() // How it ends is no result.
}

// output keeps the last of what a program says. It is safe for concurrent use.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() > 1<<20 {
		o.buf.Reset()
	}
	return o.buf.Write(p)
}

func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(o.buf.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
