package conn

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// acceptLoop accepts connections of one listener until it is closed. It is
// started by Serve.
func (s *Server) acceptLoop(l listener) {
	defer s.live.Done()
	const longest = time.Second
	backoff := 5 * time.Millisecond
	for {
		socket, err := l.socket.Accept()
		if err == nil {
			backoff = 5 * time.Millisecond
			s.admit(l.Name, socket)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Most likely no file descriptor is left. There will be when a connection
		// ends, so the loop goes on, slowly.
		s.lines.warn(kindAccept, "cannot accept connections", zap.String("listener", l.Name), zap.Error(err))
		select {
		case <-time.After(backoff):
		case <-s.stop:
			return
		}
		backoff = min(2*backoff, longest)
	}
}

// admit starts to serve a connection, or closes it if there are too many.
func (s *Server) admit(name string, socket net.Conn) {
	s.stats.Accepted.Add(1)
	ip := addrOf(socket)
	c := newConnection(s, name, socket)
	if reason := s.enter(c, ip); reason != "" {
		socket.Close()
		if reason != stopped {
			s.stats.Refused.Add(1)
			s.lines.warn(kindLimit, "connection refused", zap.Stringer("peer", socket.RemoteAddr()),
				zap.String("listener", name), zap.String("reason", reason))
		}
		return
	}
	go func() {
		defer s.live.Done()
		c.read()
	}()
	go func() {
		defer s.live.Done()
		c.write()
		s.leave(c, ip)
	}()
}

const stopped = "the server stops"

// enter counts c in, or says why not.
func (s *Server) enter(c *connection, ip netip.Addr) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return stopped
	case s.options.MaxConnections > 0 && len(s.open) >= s.options.MaxConnections:
		return "max.connections are open"
	case s.options.MaxConnectionsPerIP > 0 && s.perIP[ip] >= s.options.MaxConnectionsPerIP && ip.IsValid():
		return "max.connections.per.ip are open from there"
	}
	s.open[c] = struct{}{}
	s.perIP[ip]++
	s.live.Add(2)
	s.stats.Open.Add(1)
	return ""
}

func (s *Server) leave(c *connection, ip netip.Addr) {
	s.stats.Open.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.perIP[ip]--; s.perIP[ip] <= 0 {
		delete(s.perIP, ip)
	}
}

// addrOf returns the IP address of the peer, or the zero Addr if it has none.
func addrOf(socket net.Conn) netip.Addr {
	if tcp, ok := socket.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
