package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sluicemq/sluice/broker"
	"github.com/sluicemq/sluice/cmd/sluice/config"
)

// gcPercent is Go's GOGC where the environment does not set it. Most of the heap
// is blocks and buffers without pointers, which cost the collector nothing to
// look at; so collecting often saves memory and takes little time.
const gcPercent = 30

type serveCommand struct {
	Config string   `type:"path" env:"SLUICE_CONFIG" help:"YAML file with settings (docs/config.md lists them)."`
	Data   string   `help:"Folder of the data; short for --set log.dirs=… (default ./data)."`
	Listen string   `placeholder:"HOST:PORT" help:"Address for clients; short for --set listeners=PLAINTEXT://… (default 127.0.0.1:9092)."`
	HTTP   string   `name:"http" placeholder:"HOST:PORT" help:"Address for metrics, health and profiles; short for --set http.listen=…"`
	Set    []string `sep:"none" placeholder:"NAME=VALUE" help:"A setting; goes before file and environment. May be repeated."`
}

// Run serves until SIGINT or SIGTERM, and then stops with grace; a second
// signal ends the process at once.
func (s *serveCommand) Run() error {
	loaded, err := config.Load(config.Places{File: s.Config, Environ: os.Environ(), Set: s.settings()})
	if err != nil {
		return fmt.Errorf("the configuration is wrong:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	logger, err := newLogger(loaded.Broker.LogLevel, loaded.Broker.LogFormat)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	logger.Info("sluice starts", zap.String("version", version), zap.Int("pid", os.Getpid()))
	b, err := broker.Start(loaded.Broker, logger)
	if err != nil {
		return err
	}
	logger.Info("stopping", zap.Stringer("signal", <-signals))
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop() }() // ends with the process if a second signal comes
	select {
	case err = <-stopped:
	case again := <-signals:
		err = fmt.Errorf("stopped by a second %v before everything was written; the next start recovers it", again)
	}
	if err == nil {
		logger.Info("stopped")
	}
	return err
}

// settings are the flags as --set would give them; --set itself goes first,
// so that a flag of its own name counts.
func (s *serveCommand) settings() []string {
	set := append([]string(nil), s.Set...)
	if s.Data != "" {
		set = append(set, "log.dirs="+s.Data)
	}
	if s.Listen != "" {
		set = append(set, "listeners=PLAINTEXT://"+s.Listen)
	}
	if s.HTTP != "" {
		set = append(set, "http.listen="+s.HTTP)
	}
	return set
}

// newLogger logs to standard error.
func newLogger(level, format string) (*zap.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, errors.Join(errors.New("log.level"), err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(encoding)
	if format == "json" {
		encoder = zapcore.NewJSONEncoder(encoding)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), parsed)
	return zap.New(core), nil
}
