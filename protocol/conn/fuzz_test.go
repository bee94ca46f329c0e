package conn

import (
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/protocol"
)

// FuzzConnection sends any bytes to a server that serves everything. Whatever
// they are, the connection ends when the client goes away, nothing stays
// reserved, nobody panics, and what comes back is frames.
func FuzzConnection(f *testing.F) {
	var routes []protocol.Route
	for k := range protocol.MaxKey + 1 {
		if k.Known() {
			routes = append(routes, routeOf(k, empty))
		}
	}
	table, err := protocol.NewRoutes(routes)
	if err != nil {
		f.Fatal(err)
	}

	f.Add(request(1, of(protocol.ApiVersions, 3)), 1000)
	f.Add(append(request(1, produce(9, 100)), request(2, of(protocol.Fetch, 12))...), 7)
	f.Add(request(1, produce(3, 20_000)), 3000)
	f.Add(request(1, of(protocol.ApiVersions, 3))[:9], 9)
	f.Add([]byte("\x7f\xff\xff\xff"), 1)
	f.Add(sized(0, 18, 0x7f, 0xff, 0, 0, 0, 1, 0xff, 0xff), 100)
	f.Add(sized(0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff), 100)
	f.Add(sized(append([]byte{0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff}, make([]byte, 9000)...)...), 5000)

	f.Fuzz(func(t *testing.T, stream []byte, chunk int) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, Options{Listeners: noListeners, QueuedBytes: 32 << 10, MaxRequestBytes: 1 << 20, MaxPending: 3})
			s.Serve(table)
			c := s.pipe(t)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for rest := stream; len(rest) > 0; {
					n := min(len(rest), max(1, chunk))
					if _, err := c.c.Write(rest[:n]); err != nil {
						break
					}
					rest = rest[n:]
				}
				time.Sleep(time.Second) // for what is pending
				c.c.Close()
			}()
			for size := make([]byte, 4); ; {
				if _, err := io.ReadFull(c.in, size); err != nil {
					break
				}
				n := binary.BigEndian.Uint32(size)
				if n < 4 || n > 1<<20 {
					t.Fatalf("a response of %d bytes", n)
				}
				if _, err := c.in.Discard(int(n)); err != nil {
					t.Fatalf("a response is cut: %v", err)
				}
			}
			c.c.Close()
			<-sent
			synctest.Wait()
			if n := s.Stats().Open.Load(); n != 0 {
				t.Errorf("%d connections are open", n)
			}
			s.Stats().Closed(func(kind string, n int64) {
				if kind == "bug" && n > 0 {
					t.Error(s.refusals())
				}
			})
		})
	})
}
