package conn

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
)

// lineLogger collects what franz-go says.
type lineLogger struct {
	mu    sync.Mutex
	lines []string
}

func (l *lineLogger) Level() kgo.LogLevel { return kgo.LogLevelDebug }
func (l *lineLogger) Log(_ kgo.LogLevel, msg string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, msg)
}

func TestFranzGoConnectsWithOneDialWhateverApiVersionsItTries(t *testing.T) {
	for newest := range int16(6) {
		var routes *protocol.Routes
		s := open(t, Options{})
		routes, err := protocol.NewRoutes([]protocol.Route{
			{Key: protocol.Produce, Min: 3, Max: 12, Pipelined: true, Handle: empty},
			{Key: protocol.Metadata, Max: 12, Handle: func(_ context.Context, c *protocol.Call) protocol.Pending {
				resp := c.Request.ResponseKind().(*kmsg.MetadataResponse)
				broker := kmsg.NewMetadataResponseBroker()
				addr := c.Conn.LocalAddr.(*net.TCPAddr)
				broker.NodeID, broker.Host, broker.Port = 1, addr.IP.String(), int32(addr.Port)
				resp.Brokers = append(resp.Brokers, broker)
				return protocol.Answer(resp)
			}},
			{Key: protocol.ApiVersions, Max: newest, Handle: func(context.Context, *protocol.Call) protocol.Pending {
				return protocol.Answer(routes.ApiVersionsResponse())
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(routes)

		var dials atomic.Int64
		said := &lineLogger{}
		client, err := kgo.NewClient(
			kgo.SeedBrokers(s.Addr("PLAINTEXT").String()),
			kgo.WithLogger(said),
			kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, host)
			}),
		)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := client.Ping(ctx); err != nil {
			t.Errorf("version %d: %v", newest, err)
		}
		cancel()
		client.Close()
		if n := dials.Load(); n != 1 {
			t.Errorf("version %d: %d dials, want 1", newest, n)
		}
		for _, line := range said.lines {
			if strings.Contains(line, "reset") || newest == 5 && strings.Contains(line, "downgrad") {
				t.Errorf("version %d: franz-go says %q", newest, line)
			}
		}
		if lines := s.refusals(); len(lines) > 0 {
			t.Errorf("version %d: %v", newest, lines)
		}
	}
}
