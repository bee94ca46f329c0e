package oracle_test

import (
	"net"
	"os"
	"testing"

	"github.com/sluicemq/sluice/tests/oracle"
)

func TestOracleServesUntilClosedAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache Kafka")
	}
	dir := t.TempDir()
	b := oracle.Start(t, oracle.Options{Dir: dir})
	conn, err := net.Dial("tcp", b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", b.Addr); err == nil {
		t.Error("the port still answers after Close")
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOracleReportsWhyItDidNotStart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache Kafka")
	}
	_, err := oracle.Run(t.Context(), oracle.Options{
		Dir: t.TempDir(), Config: map[string]string{"num.partitions": "none"},
	})
	if err == nil {
		t.Fatal("a node with a bad setting started")
	}
}
