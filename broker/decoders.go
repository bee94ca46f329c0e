package broker

import "runtime"

// decoders are the right to decompress record batches, for as many at a time as
// there are processors. A batch may take up a thousand times its size in memory
// while it is looked at, and more of them at once would not be faster.
type decoders chan struct{}

func newDecoders() decoders { return make(decoders, runtime.GOMAXPROCS(0)) }

// take waits for the right, for one batch at a time. give returns it.
func (d decoders) take() { d <- struct{}{} }

func (d decoders) give() { <-d }
