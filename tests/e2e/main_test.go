package e2e

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/tests/e2e/node"
)

func TestMain(m *testing.M) {
	// The library that sarama counts with never ends its clock.
	node.Main(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}
