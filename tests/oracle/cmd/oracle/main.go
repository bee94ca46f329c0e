// Command oracle runs one Apache Kafka node for a person or a script.
//
// It prints one line, "ready HOST:PORT", and stops the node when its standard input ends or a
// signal comes. Arguments are broker settings, name=value.
//
//	go run ./tests/oracle/cmd/oracle num.partitions=4
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sluicemq/sluice/tests/oracle"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	config := make(map[string]string)
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("want name=value, got %q", a)
		}
		config[name] = value
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := oracle.Run(ctx, oracle.Options{Config: config})
	if err != nil {
		return err
	}
	fmt.Println("ready", b.Addr)

	input := make(chan struct{})
	// Ends with the input, or with the process.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(input)
	}()
	select {
	case <-ctx.Done():
	case <-input:
	case <-b.Exited():
	}
	return b.Close()
}
