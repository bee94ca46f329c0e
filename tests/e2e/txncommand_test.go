package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// transactions runs sluice txn against a node.
func transactions(t testing.TB, n *node.Node, args ...string) node.Outcome {
	t.Helper()
	return node.Run(t, nil, append([]string{"txn", args[0], "--bootstrap", n.Addr()}, args[1:]...)...)
}

// transactionsJSON runs it, and reads what it prints.
func transactionsJSON(t testing.TB, n *node.Node, into any, args ...string) {
	t.Helper()
	o := transactions(t, n, append(args, "--output", "json")...)
	if o.Code != exitOK || o.Stderr != "" {
		t.Fatalf("sluice txn %s: %+v", strings.Join(args, " "), o)
	}
	if err := json.Unmarshal([]byte(o.Stdout), into); err != nil {
		t.Fatalf("sluice txn %s: %v\n%s", strings.Join(args, " "), err, o.Stdout)
	}
}

// openTransaction begins a transaction with a record in partition 1 of a topic.
func openTransaction(t testing.TB, n *node.Node, id, topic string) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return c
}

type listedTransaction struct {
	ID       string `json:"transactional_id"`
	Producer int64  `json:"producer_id"`
	State    string
}

func TestOperatorsSeeTransactionsAndAbortThem(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	makeTopic(t, raw.Dial(t, n.Addr()), "a", 2)
	c := openTransaction(t, n, "orders", "a")
	done := openTransaction(t, n, "done", "a")
	if err := done.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}

	var listed []listedTransaction
	transactionsJSON(t, n, &listed, "list")
	if len(listed) != 2 || listed[0].ID != "done" || listed[0].State != "CompleteCommit" || listed[1].State != "Ongoing" {
		t.Errorf("listed: %+v", listed)
	}
	transactionsJSON(t, n, &listed, "list", "--state", "Ongoing", "--longer-than", "1ms")
	if len(listed) != 1 || listed[0].ID != "orders" {
		t.Errorf("open: %+v", listed)
	}
	transactionsJSON(t, n, &listed, "list", "--longer-than", "1h")
	if len(listed) != 0 {
		t.Errorf("open for an hour: %+v", listed)
	}
	var shown struct {
		State      string
		Producer   int64 `json:"producer_id"`
		Partitions []struct {
			Topic      string
			Partitions []int32
		}
	}
	transactionsJSON(t, n, &shown, "describe", "orders")
	if shown.State != "Ongoing" || len(shown.Partitions) != 1 || shown.Partitions[0].Topic != "a" || shown.Partitions[0].Partitions[0] != 1 {
		t.Errorf("described: %+v", shown)
	}
	var hanging []any
	transactionsJSON(t, n, &hanging, "hanging", "--older-than", "0s")
	if len(hanging) != 0 {
		t.Errorf("hanging: %+v", hanging)
	}

	text := transactions(t, n, "abort", "orders")
	if text.Code != exitOK || text.Stdout != "aborted the transaction of orders; its producer is fenced\n" {
		t.Errorf("abort: %+v", text)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("it was committed afterwards")
	}
	again := transactions(t, n, "abort", "orders")
	if again.Code != exitOK || again.Stdout != "orders had no open transaction; its producer is fenced\n" {
		t.Errorf("abort again: %+v", again)
	}
	for _, args := range [][]string{{"describe", "no-such-id"}, {"abort", "no-such-id"}, {"hanging", "--topic", "no-such-topic"},
		{"abort", "--topic", "a", "--partition", "7", "--producer-id", "1"}, {"abort", "--topic", "a", "--partition", "0", "--producer-id", "1"}} {
		if o := transactions(t, n, args...); o.Code != exitNotFound || o.Stdout != "" || strings.Count(o.Stderr, "\n") != 1 {
			t.Errorf("%s: %+v", strings.Join(args, " "), o)
		}
	}
	for _, args := range [][]string{{"abort"}, {"abort", "x", "--topic", "a"}, {"abort", "--topic", "a"}} {
		if o := transactions(t, n, args...); o.Code != exitUsage {
			t.Errorf("%s: %+v", strings.Join(args, " "), o)
		}
	}
}

func TestOperatorEndsWhatIsOpenInAPartition(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	makeTopic(t, raw.Dial(t, n.Addr()), "a", 2)
	c := openTransaction(t, n, "orders", "a")
	id, _, err := c.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := transactions(t, n, "abort", "--topic", "a", "--partition", "1", "--producer-id", jsonNumber(id))
	if o.Code != exitOK || !strings.HasPrefix(o.Stdout, "aborted in partition 1 of a ") {
		t.Fatalf("%+v", o)
	}
	if again := transactions(t, n, "abort", "--topic", "a", "--partition", "1", "--producer-id", jsonNumber(id)); again.Code != exitNotFound {
		t.Errorf("again: %+v", again)
	}
}

func jsonNumber(n int64) string {
	b, _ := json.Marshal(n) // an integer always can be
	return string(b)
}
