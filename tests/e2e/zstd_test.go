package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// librdkafka and the Java client compress with zstd as a stream: the frame does
// not say how large its content is, which may be a hundred times its size.
func TestBatchesThatCompressWellAreTakenFromAllClients(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	var want []string
	for i := range 500 {
		value := fmt.Sprint(i, " ", strings.Repeat("x", 300))
		want = append(want, value)
		fmt.Fprintln(&lines, value)
	}
	for _, codec := range codecNames {
		n := node.Start(t, node.Options{}) // its buffers are small as yet
		c := raw.Dial(t, n.Addr())
		tp := makeTopic(t, c, "kcat-"+codec, 1)
		if _, err := kcatProduce(t, n, lines.String(), "-t", tp.name, "-p", "0", "-z", codec, "-X", "linger.ms=100"); err != nil {
			t.Error(codec, err)
			continue
		}
		if got := valuesOf(readAll(t, c, tp, 0)); !slices.Equal(got, want) {
			t.Errorf("%s: %d records", codec, len(got))
		}
	}
}
