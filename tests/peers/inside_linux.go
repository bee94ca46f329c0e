package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/tests/oracle"
	"github.com/sluicemq/sluice/tests/server"
)

// runApart runs the plan in dir in a process whose network holds nothing but loopback, so that the
// ports that a suite has in its source are free, and nothing else can be reached.
func runApart(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-inside", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd.Run()
}

// runInside carries out the plan in o.inside. That tests fail is no error.
func runInside(ctx context.Context, o options) error {
	dir := o.inside
	p, err := loadPlan(dir)
	if err != nil {
		return err
	}
	if err := command(ctx, dir, nil, "ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	logs, err := os.Create(filepath.Join(dir, brokerLog))
	if err != nil {
		return err
	}
	defer logs.Close()
	stop, err := startBroker(ctx, p, dir, logs)
	if err != nil {
		return err
	}
	err = p.run(ctx, dir)
	return errors.Join(err, stop())
}

func (p *plan) run(ctx context.Context, dir string) error {
	if p.Beside != nil {
		stop, err := p.Beside.start(ctx, dir)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	for _, s := range p.Steps {
		out, err := os.Create(filepath.Join(dir, s.Out))
		if err != nil {
			return err
		}
		cmd := s.command(ctx, out)
		err = cmd.Run()
		out.Close()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return fmt.Errorf("%v: %w", s.Args, err)
		}
	}
	return nil
}

func (s *step) command(ctx context.Context, out io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 10 * time.Second
	// What a test program started goes with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// start runs a program until stop is called.
func (s *step) start(ctx context.Context, dir string) (stop func(), err error) {
	out, err := os.Create(filepath.Join(dir, s.Out))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := s.command(ctx, out)
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return func() {
		cancel()
		_ = cmd.Wait()
		out.Close()
	}, nil
}

// startBroker starts what the plan is against.
func startBroker(ctx context.Context, p plan, dir string, logs io.Writer) (stop func() error, err error) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port))
	advertised := p.Advertised
	if advertised == "" {
		advertised = addr
	}
	if p.Against == "kafka" {
		config := map[string]string{
			"listeners":                "PLAINTEXT://" + addr + ",CONTROLLER://127.0.0.1:9990",
			"controller.quorum.voters": "1@127.0.0.1:9990",
			"advertised.listeners":     "PLAINTEXT://" + advertised,
		}
		for _, s := range p.Settings {
			name, value, _ := strings.Cut(s, "=")
			config[name] = value
		}
		b, err := oracle.Run(ctx, oracle.Options{Config: config, Dir: dir})
		if err != nil {
			return nil, err
		}
		return b.Close, nil
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return nil, err
	}
	args := []string{"--listen", addr, "--set", "advertised.listeners=PLAINTEXT://" + advertised}
	for _, s := range append(p.Settings, p.SluiceOnly...) {
		args = append(args, "--set", s)
	}
	b, err := server.Run(ctx, server.Options{Binary: p.Binary, Dir: data, Args: args, Log: logs})
	if err != nil {
		return nil, err
	}
	return b.Close, nil
}
