package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// firstAck produces one record to a new topic.
func (r *run) firstAck(ctx context.Context, l load) error {
	l, err := r.topic(ctx, l)
	if err != nil {
		return err
	}
	c, err := l.producer()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ProduceSync(ctx, &kgo.Record{Value: l.value()}).FirstErr()
}

// line shows figures in one line, sorted.
func (f figures) line() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, f[name]))
	}
	return strings.Join(parts, ", ")
}

// results holds every figure of every round.
type results struct {
	workloads []string                                   // in the order in which they ran
	values    map[string]map[string]map[string][]float64 // workload, broker, figure
}

func newResults() *results { return &results{values: map[string]map[string]map[string][]float64{}} }

func (r *results) add(workload, broker string, f figures) {
	if r.values[workload] == nil {
		r.workloads = append(r.workloads, workload)
		r.values[workload] = map[string]map[string][]float64{}
	}
	if r.values[workload][broker] == nil {
		r.values[workload][broker] = map[string][]float64{}
	}
	for name, v := range f {
		r.values[workload][broker][name] = append(r.values[workload][broker][name], v)
	}
}

// raw measures what the machine gives.
func (r *results) raw(dir string, d time.Duration) error {
	f := figures{}
	for _, block := range []int{4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		speed, err := rawDisk(dir, block, d)
		if err != nil {
			return err
		}
		f[fmt.Sprintf("write+fdatasync %d KiB, MiB/s", block>>10)] = speed / mib
	}
	speed, err := rawLoopback(256<<10, d)
	if err != nil {
		return err
	}
	f["loopback 256 KiB, MiB/s"] = speed / mib
	r.add("raw limits", "machine", f)
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// table writes the figures as Markdown: medians, and the spread in parentheses.
func (r *results) table(command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of all rounds, smallest and largest in parentheses. Made with `%s`.\n", command)
	for _, w := range r.workloads {
		brokers := slices.Sorted(maps.Keys(r.values[w]))
		names := map[string]bool{}
		for _, broker := range brokers {
			for name := range r.values[w][broker] {
				names[name] = true
			}
		}
		fmt.Fprintf(&b, "\n### %s\n\n| |", w)
		for _, broker := range brokers {
			fmt.Fprintf(&b, " %s |", broker)
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(brokers)))
		for _, name := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(&b, "| %s |", name)
			for _, broker := range brokers {
				values := r.values[w][broker][name]
				if len(values) == 0 {
					b.WriteString(" – |")
					continue
				}
				fmt.Fprintf(&b, " %.4g (%.3g–%.3g) |", median(values), slices.Min(values), slices.Max(values))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// write puts the table, all values, and plots beside each other.
func (r *results) write(out, text string) error {
	if err := os.WriteFile(out+".md", []byte(text), 0o644); err != nil {
		return err
	}
	all, err := json.MarshalIndent(r.values, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".json", append(all, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(out+".svg", []byte(r.plot("MiB/s")), 0o644)
}
