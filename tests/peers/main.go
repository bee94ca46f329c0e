// Command peers runs the test suites that Kafka clients wrote for themselves, against Sluice, and
// tells which of their tests pass. See tests/peers/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	suites, binary, against string
	all, keep               bool
	inside                  string
}

// errUnexpected says that a test ended otherwise than expected.txt has it.
var errUnexpected = errors.New("not as expected")

func main() {
	var o options
	flag.StringVar(&o.suites, "suites", "", "comma-separated suites; all if empty")
	flag.StringVar(&o.binary, "sluice", "", "sluice program to start, instead of building it")
	flag.StringVar(&o.against, "against", "sluice", `"sluice", or "kafka" to see what Kafka makes of the tests`)
	flag.BoolVar(&o.all, "all", false, "also run the tests that expected.txt leaves out")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with sources and outputs, and print its name")
	flag.StringVar(&o.inside, "inside", "", "for this program's own use: run the plan in this folder")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	run := peers
	if o.inside != "" {
		run = runInside
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func peers(ctx context.Context, o options) error {
	started := time.Now()
	root, err := sourceTree(ctx)
	if err != nil {
		return err
	}
	rows, err := loadExpected(filepath.Join(root, "tests", "peers", "expected.txt"))
	if err != nil {
		return err
	}
	wanted, err := choose(o.suites)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("kept in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if o.against == "sluice" && o.binary == "" {
		o.binary = filepath.Join(dir, "sluice")
		if err := command(ctx, root, nil, "go", "build", "-o", o.binary, "./cmd/sluice"); err != nil {
			return err
		}
	}

	var reports []*report
	good := true
	for _, s := range wanted {
		r, err := play(ctx, o, root, dir, s, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		reports = append(reports, r)
		r.print(os.Stdout, o.against)
		good = good && len(r.wrong) == 0
	}
	fmt.Printf("finished after %v\n", time.Since(started).Round(time.Second))
	if o.against != "sluice" {
		return nil
	}
	if o.suites == "" && !o.all {
		if err := write(filepath.Join(root, "docs", "peers.md"), reports); err != nil {
			return err
		}
	}
	if !good {
		return errUnexpected
	}
	return nil
}

// play makes one suite ready, runs it, and judges what came out.
func play(ctx context.Context, o options, root, dir string, s suite, rows []row) (*report, error) {
	started := time.Now()
	own := filepath.Join(dir, s.name)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return nil, err
	}
	p := plan{
		Binary: o.binary, Against: o.against, Port: s.port, Advertised: s.named, Settings: s.settings, Limit: s.limit,
	}
	var leave []string
	for _, r := range rows {
		if r.suite == s.name && r.outcome == leftOut && !o.all {
			leave = append(leave, r.test)
		}
	}
	version, err := s.prepare(ctx, site{root: root, dir: own, leave: leave, limit: s.limit}, &p)
	if err != nil {
		return nil, err
	}
	if err := p.save(own); err != nil {
		return nil, err
	}
	ready := time.Now()
	fmt.Printf("%s %s: ready after %v\n", s.name, version, ready.Sub(started).Round(time.Second))
	if err := runApart(ctx, own); err != nil {
		return nil, err
	}
	results, err := s.read(own)
	if err != nil {
		return nil, err
	}
	r := judge(s, results, rows, o.all)
	r.version, r.took = version, time.Since(ready)
	return r, nil
}

// choose finds the suites with the comma-separated names.
func choose(names string) ([]suite, error) {
	if names == "" {
		return suites, nil
	}
	var out []suite
	for _, n := range strings.Split(names, ",") {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == n })
		if i < 0 {
			return nil, fmt.Errorf("no suite %q", n)
		}
		out = append(out, suites[i])
	}
	return out, nil
}

func sourceTree(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the source tree: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// command runs a program to its end; its output is part of the error. The environment is that of
// this process and env.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, text)
	}
	return nil
}
