package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

type settings struct {
	binary  string
	dir     string
	out     string
	rounds  int
	long    time.Duration
	targets string
	only    string
	wanted  *regexp.Regexp // only, compiled
}

func main() {
	var s settings
	flag.StringVar(&s.binary, "binary", "", "sluice program; empty builds it")
	flag.StringVar(&s.dir, "dir", "", "folder on the disk to measure; empty is the system's temporary one")
	flag.StringVar(&s.out, "out", "", "write FILE.md, FILE.json and plots beside it")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; the brokers run in turn in each")
	flag.DurationVar(&s.long, "long", 8*time.Second, "how long a workload lasts")
	flag.StringVar(&s.targets, "targets", "", "brokers to run, separated by commas; empty for all")
	flag.StringVar(&s.only, "only", "", "run workloads whose name matches this regular expression")
	flag.Parse()
	var err error
	if s.wanted, err = regexp.Compile(s.only); err != nil {
		fmt.Fprintln(os.Stderr, "bench: -only:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (s *settings) run(ctx context.Context) error {
	dir, err := os.MkdirTemp(s.dir, "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	results := newResults()
	chosen := s.chosen()
	for round := range s.rounds {
		if err := results.raw(dir, s.long/4); err != nil {
			return err
		}
		// Each round begins with another broker.
		for i := range chosen {
			t := chosen[(i+round)%len(chosen)]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, s.rounds, t.name)
			if err := s.measure(ctx, t, filepath.Join(dir, fmt.Sprintf("%s-%d", t.name, round)), results); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	text := results.table(s.commandLine())
	fmt.Print(text)
	if s.out == "" {
		return nil
	}
	return results.write(s.out, text)
}

func (s *settings) chosen() []target {
	all := targets(s.binary)
	if s.targets == "" {
		return all
	}
	names := strings.Split(s.targets, ",")
	return slices.DeleteFunc(all, func(t target) bool { return !slices.Contains(names, t.name) })
}

func (s *settings) commandLine() string {
	text := fmt.Sprintf("go run ./tests/bench -rounds %d -long %v", s.rounds, s.long)
	if s.only != "" {
		text += fmt.Sprintf(" -only '%s'", s.only)
	}
	return text
}

// measure starts a broker and runs the workloads on it.
func (s *settings) measure(ctx context.Context, t target, dir string, results *results) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	b, err := t.start(ctx, dir)
	if err != nil {
		return err
	}
	defer b.close()
	r := &run{broker: b, dir: dir, long: s.long}
	first := load{record: 100, partitions: 1, producers: 1}
	if err := r.firstAck(ctx, first); err != nil {
		return err
	}
	f := figures{"first ack s": time.Since(began).Seconds()}
	if u, err := usageOf(b.pid); err == nil {
		f["rss MiB"] = float64(u.rss) / mib
	}
	results.add("start", t.name, f)
	for _, w := range workloads() {
		if !s.wanted.MatchString(w.name) || len(w.targets) > 0 && !slices.Contains(w.targets, t.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "  %-36s", w.name)
		f, err := w.measure(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		results.add(w.name, t.name, f)
		fmt.Fprintf(os.Stderr, " %s\n", f.line())
	}
	return b.close()
}
