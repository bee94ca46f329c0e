package watch_test

import (
	"fmt"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/watch"
)

// A consumer waits until there are three batches.
func ExampleHub() {
	var hub watch.Hub
	var batches atomic.Int64

	go func() { // the apply loop; ends by itself
		for range 3 {
			batches.Add(1)
			hub.Notify(7)
		}
	}()

	w := hub.Watch([]entry.Partition{7, 8})
	defer w.Cancel()
	for batches.Load() < 3 {
		<-w.Woken() // beside a deadline, as a rule
		w.Rearm(nil)
	}
	fmt.Println(batches.Load())
	// Output: 3
}
