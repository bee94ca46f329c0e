package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/tests/e2e/node"
)

// kcat runs kcat against a node, gives it input and returns what it prints.
func kcat(t testing.TB, n *node.Node, input string, args ...string) string {
	t.Helper()
	out, err := tryKcat(t, n, input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryKcat(t testing.TB, n *node.Node, input string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Fatal("kcat is missing; `make tools` installs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", n.Addr()}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kcat %s: %w\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), stderr.String())
	}
	return stdout.String(), nil
}

// message is a record as every client shows it. A nil key, value or header
// value is null.
type message struct {
	partition  int32
	offset     int64
	timestamp  int64
	key, value []byte
	headers    []header
}

type header struct {
	name  string
	value []byte
}

// kcatConsume reads count records of a partition from its beginning; all of
// them and of all partitions with partition -1.
func kcatConsume(t testing.TB, n *node.Node, topic string, partition int32, count int, args ...string) []message {
	t.Helper()
	args = append([]string{"-C", "-t", topic, "-o", "beginning", "-c", strconv.Itoa(count), "-J"}, args...)
	if partition >= 0 {
		args = append(args, "-p", strconv.Itoa(int(partition)))
	}
	return kcatMessages(t, kcat(t, n, "", args...))
}

// kcatMessages parses what kcat -J prints.
func kcatMessages(t testing.TB, text string) []message {
	t.Helper()
	var messages []message
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var line struct {
			Partition    int32
			Offset, TS   int64
			Key, Payload *string
			Headers      []*string
		}
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatalf("kcat printed %.200q: %v", in.Text(), err)
		}
		m := message{partition: line.Partition, offset: line.Offset, timestamp: line.TS, key: bytesOf(line.Key), value: bytesOf(line.Payload)}
		for i := 0; i+1 < len(line.Headers); i += 2 {
			m.headers = append(m.headers, header{*line.Headers[i], bytesOf(line.Headers[i+1])})
		}
		messages = append(messages, m)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return messages
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}
