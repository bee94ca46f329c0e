package e2e

import (
	"testing"

	"github.com/sluicemq/sluice/tests/e2e/node"
)

func TestMain(m *testing.M) { node.Main(m) }
