// Command matrix runs a list of scenarios with many Kafka clients, against Apache Kafka and against
// Sluice, and tells where a client gets something else from Sluice. See tests/clients/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/tests/diff"
	"github.com/sluicemq/sluice/tests/oracle"
	"github.com/sluicemq/sluice/tests/server"
)

type options struct {
	clients, scenarios string
	against, binary    string
	install, verbose   bool
	parallel           int
}

// quick has settings of both brokers. Some clients cannot consume without a group and would wait three
// seconds each time; and members that crash are waited for.
var quick = map[string]string{
	"group.initial.rebalance.delay.ms": "0",
	"group.min.session.timeout.ms":     "1000",
}

// errDiffers says that a client got something else from the second broker.
var errDiffers = errors.New("there are differences")

func main() {
	var o options
	flag.StringVar(&o.clients, "clients", "", "comma-separated clients; all if empty")
	flag.StringVar(&o.scenarios, "scenarios", "", "pattern of the scenarios; all if empty")
	flag.StringVar(&o.against, "against", "", `second broker: an address, "kafka", or Sluice if empty`)
	flag.StringVar(&o.binary, "sluice", "", "sluice program to start, instead of building it")
	flag.BoolVar(&o.install, "install", false, "only fetch and build the clients")
	flag.BoolVar(&o.verbose, "v", false, "print every result")
	flag.IntVar(&o.parallel, "parallel", 2, "how many clients run at once")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := matrix(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func matrix(ctx context.Context, o options) error {
	started := time.Now()
	root, err := sourceTree(ctx)
	if err != nil {
		return err
	}
	drivers, err := installAll(ctx, filepath.Join(root, "tests", "clients"), o.clients)
	if err != nil {
		return err
	}
	fmt.Printf("%d clients ready after %v\n", len(drivers), time.Since(started).Round(time.Second))
	if o.install {
		return nil
	}
	meant, err := diff.LoadMeant(filepath.Join(root, "docs", "differences.md"))
	if err != nil {
		return err
	}

	kafka, err := oracle.Run(ctx, oracle.Options{Config: quick})
	if err != nil {
		return err
	}
	defer kafka.Close()
	second, name, stop, err := startSecond(ctx, o)
	if err != nil {
		return err
	}
	defer stop()

	runID := strconv.FormatInt(time.Now().Unix()%(36*36*36*36), 36)
	var pair [2]*broker
	for i, x := range []struct{ name, addr string }{{"Kafka", kafka.Addr}, {name, second}} {
		// The two may be one broker: their topics must not meet.
		if pair[i], err = meet(ctx, x.name, x.addr, runID+strconv.Itoa(i)); err != nil {
			return err
		}
		defer pair[i].close()
	}

	t := &table{kafka: kafka.Version, second: name, cells: make(map[cellKey][2]result)}
	t.play(ctx, o, drivers, pair, runID)
	if err := ctx.Err(); err != nil {
		return err
	}
	differs := t.print(os.Stdout, meant)
	fmt.Printf("finished after %v\n", time.Since(started).Round(time.Second))
	if o.clients == "" && o.scenarios == "" && o.against == "" {
		if err := t.write(filepath.Join(root, "docs", "compatibility.md"), meant); err != nil {
			return err
		}
	}
	if differs {
		return errDiffers
	}
	return nil
}

// startSecond starts the broker that is compared with Kafka.
func startSecond(ctx context.Context, o options) (addr, name string, stop func(), err error) {
	switch o.against {
	case "kafka":
		b, err := oracle.Run(ctx, oracle.Options{Config: quick})
		if err != nil {
			return "", "", nil, err
		}
		return b.Addr, "Kafka again", func() { b.Close() }, nil
	case "":
		dir, err := os.MkdirTemp("", "matrix-")
		if err != nil {
			return "", "", nil, err
		}
		var args []string
		for name, value := range quick {
			args = append(args, "--set", name+"="+value)
		}
		s, err := server.Run(ctx, server.Options{Binary: o.binary, Dir: dir, Args: args})
		if err != nil {
			os.RemoveAll(dir)
			return "", "", nil, err
		}
		return s.Addr, "Sluice", func() {
			if err := s.Close(); err != nil {
				fmt.Fprintln(os.Stderr, "matrix:", err)
			}
			os.RemoveAll(dir)
		}, nil
	default:
		return o.against, o.against, func() {}, nil
	}
}

func sourceTree(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the source tree: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// installAll makes the wanted clients ready.
func installAll(ctx context.Context, src, wanted string) ([]driver, error) {
	var names []string
	if wanted != "" {
		names = strings.Split(wanted, ",")
	}
	known := make(map[string]bool)
	var out []driver
	for _, f := range families {
		var want []string
		for _, d := range f.drivers {
			known[d] = true
			if names == nil || slices.Contains(names, d) {
				want = append(want, d)
			}
		}
		if len(want) == 0 {
			continue
		}
		start, err := f.install(ctx, src)
		if err != nil {
			return nil, fmt.Errorf("install %s: %w", f.name, err)
		}
		for _, d := range want {
			out = append(out, driver{d, func(addr string) *exec.Cmd { return start(d, addr) }})
		}
	}
	for _, n := range names {
		if !known[n] {
			return nil, fmt.Errorf("no client %q", n)
		}
	}
	return out, nil
}

// play runs all scenarios with all clients against both brokers.
func (t *table) play(ctx context.Context, o options, drivers []driver, pair [2]*broker, runID string) {
	slots := make(chan struct{}, o.parallel)
	var wg sync.WaitGroup
	for _, d := range drivers {
		t.clients = append(t.clients, d.name)
		wg.Add(1)
		// One goroutine a client; ends when its scenarios have run.
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			before := time.Now()
			for i, b := range pair {
				t.client(ctx, o, d, b, i, fmt.Sprintf("m%s%d-%s", runID, i, d.name))
			}
			fmt.Printf("%s: %v\n", d.name, time.Since(before).Round(100*time.Millisecond))
		}()
	}
	wg.Wait()
}

// client runs the scenarios with one client against one broker. A driver that ends is started anew
// for the next scenario.
func (t *table) client(ctx context.Context, o options, d driver, b *broker, side int, prefix string) {
	var s *session
	for _, sc := range scenarios {
		if ok, _ := path.Match(o.scenarios, sc.name); !ok && o.scenarios != "" || ctx.Err() != nil {
			continue
		}
		if s == nil || s.dead != nil {
			if s != nil {
				s.close()
			}
			var err error
			if s, err = startSession(d, b.addr); err != nil {
				t.put(d.name, sc.name, side, result{"fail", err.Error(), 0})
				continue
			}
		}
		r := run(ctx, sc, s, b, prefix+"-"+sc.name)
		if o.verbose {
			fmt.Printf("%s | %s | %s: %s %s (%v)\n", b.name, d.name, sc.name, r.status, r.text, r.took.Round(time.Millisecond))
		}
		t.put(d.name, sc.name, side, r)
	}
	if s != nil {
		s.close()
	}
}
