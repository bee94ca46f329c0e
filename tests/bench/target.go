package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/tests/oracle"
	"github.com/sluicemq/sluice/tests/server"
)

// target is a broker in one configuration.
type target struct {
	name string
	// start starts it over an empty folder and returns when it takes requests.
	start func(ctx context.Context, dir string) (broker, error)
}

// broker is a target that runs.
type broker struct {
	addr  string
	pid   int
	close func() error
}

// targets returns the brokers to compare. kafka and kafka-fsync are Apache Kafka
// with its defaults (no fsync) and with an fsync for every write.
func targets(binary string) []target {
	sluice := func(args ...string) func(context.Context, string) (broker, error) {
		return func(ctx context.Context, dir string) (broker, error) {
			s, err := server.Run(ctx, server.Options{Binary: binary, Dir: dir, Args: args})
			if err != nil {
				return broker{}, err
			}
			return broker{addr: s.Addr, pid: s.PID(), close: s.Close}, nil
		}
	}
	kafka := func(config map[string]string) func(context.Context, string) (broker, error) {
		return func(ctx context.Context, dir string) (broker, error) {
			b, err := oracle.Run(ctx, oracle.Options{
				Dir: dir, HeapMB: 1024, Config: config,
				// What Kafka's own start script uses.
				Flags: []string{"-Xms1024m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"},
			})
			if err != nil {
				return broker{}, err
			}
			return broker{addr: b.Addr, pid: b.PID(), close: b.Close}, nil
		}
	}
	return []target{
		{"sluice", sluice()},
		{"sluice-async", sluice("--set", "flush=async")},
		{"kafka", kafka(nil)},
		{"kafka-fsync", kafka(map[string]string{"log.flush.interval.messages": "1"})},
	}
}

// usage is what a process has used so far.
type usage struct {
	cpu     time.Duration
	rss     int64 // bytes, now
	peak    int64 // bytes, ever
	written int64 // bytes that went to the disk on its behalf
}

// clockTick is the unit of /proc's times; it is 100 a second on every Linux.
const clockTick = 10 * time.Millisecond

// usageOf reads what the kernel has counted for a process.
func usageOf(pid int) (u usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	for _, i := range []int{11, 12} { // utime and stime
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	if u.rss, err = procField(pid, "status", "VmRSS:"); err != nil {
		return u, err
	}
	if u.peak, err = procField(pid, "status", "VmHWM:"); err != nil {
		return u, err
	}
	u.rss, u.peak = u.rss<<10, u.peak<<10
	u.written, err = procField(pid, "io", "write_bytes:")
	return u, err
}

// procField reads one number from a file of a process.
func procField(pid int, file, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/%s has no %s", pid, file, name)
}
