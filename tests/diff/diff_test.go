package diff_test

import (
	"flag"
	"testing"

	"github.com/sluicemq/sluice/tests/diff"
	"github.com/sluicemq/sluice/tests/oracle"
	"github.com/sluicemq/sluice/tests/server"
)

var (
	record = flag.Bool("record", false, "write Kafka's answers into golden")
	cases  = flag.String("cases", "", "pattern of the cases to play")
	addr   = flag.String("addr", "", "broker to compare, instead of starting Sluice")
	binary = flag.String("sluice", "", "sluice program to start, instead of building it")
)

// TestKafkaAnswersAsRecorded shows that the recorded answers are Kafka's, and that the cases
// depend on nothing that changes from run to run.
func TestKafkaAnswersAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache Kafka")
	}
	b := oracle.Start(t, oracle.Options{Config: map[string]string{
		// Kafka looks for transactions to abort every ten seconds, unless told otherwise.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
		// It waits three seconds for more members of a new group.
		"group.initial.rebalance.delay.ms": "0",
	}})
	if *record {
		diff.Record(t, b.Addr, b.Version, "golden", diff.Options{Cases: *cases})
		return
	}
	diff.Check(t, b.Addr, diff.Options{Cases: *cases})
}

// likeOracle gives Sluice the settings that Kafka was started with when its answers were recorded.
var likeOracle = []string{"--set", "node.id=1", "--set", "broker.id=1", "--set", "group.initial.rebalance.delay.ms=0"}

func TestSluiceAnswersAsKafka(t *testing.T) {
	meant, err := diff.LoadMeant("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	target := *addr
	if target == "" {
		target = server.Start(t, server.Options{Binary: *binary, Args: likeOracle}).Addr
	}
	diff.Check(t, target, diff.Options{Cases: *cases, Meant: meant})
	if *cases == "" && !t.Failed() {
		for _, row := range meant.Unused() {
			t.Errorf("docs/differences.md tells a difference that is not there: %s", row)
		}
	}
}
