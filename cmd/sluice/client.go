package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Exit codes of the commands that talk to a broker, besides 0 and 1.
const (
	notFound = 3
	inUse    = 4
)

// connection is how a command reaches a broker: the flags of all that do.
type connection struct {
	Bootstrap []string      `default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"Addresses of brokers to start from (${default})."`
	Timeout   time.Duration `default:"15s" help:"How long the whole command may take (${default})."`
	Output    string        `enum:"text,json" default:"text" help:"How to print: ${enum}."`
}

// with connects, calls do, and disconnects.
func (c *connection) with(do func(ctx context.Context, admin *kadm.Client) error) error {
	return c.withClient(func(ctx context.Context, client *kgo.Client) error { return do(ctx, kadm.NewClient(client)) })
}

// withClient is with for who asks what the admin client cannot.
func (c *connection) withClient(do func(ctx context.Context, client *kgo.Client) error) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--timeout is %v, and must be above 0", c.Timeout)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap...), kgo.ClientID("sluice"), kgo.RetryTimeout(c.Timeout/2))
	if err != nil {
		return fmt.Errorf("--bootstrap %s: %w", strings.Join(c.Bootstrap, ","), err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	err = do(ctx, client)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer of %s within %v", strings.Join(c.Bootstrap, ","), c.Timeout)
	}
	return err
}

// print prints a value as JSON, or what text writes.
func (c *connection) print(value any, text func(w io.Writer)) error {
	if c.Output == "json" {
		return printJSON(value)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}
