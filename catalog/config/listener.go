package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Listener is one address of the broker.
type Listener struct {
	Name     string // as in listeners; upper case
	Protocol string // PLAINTEXT
	Host     string // without brackets; empty: every interface, or the machine's name if advertised
	Port     uint16 // 0: the system chooses
}

// Address returns host:port, as net.Listen takes it.
func (l Listener) Address() string {
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// String returns NAME://host:port.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// everyInterface reports whether the host stands for all addresses of the
// machine, so that it is no address to connect to.
func (l Listener) everyInterface() bool {
	if l.Host == "" {
		return true
	}
	a, err := netip.ParseAddr(l.Host)
	return err == nil && a.IsUnspecified()
}

var listenerName = regexp.MustCompile(`^[A-Z0-9_]+$`)

// parseListener reads NAME://host:port, except for the protocol.
func parseListener(item string) (Listener, error) {
	name, address, ok := strings.Cut(item, "://")
	name = strings.ToUpper(name)
	if !ok || !listenerName.MatchString(name) {
		return Listener{}, errors.New("no NAME://")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Listener{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	if strings.ContainsAny(host, "/ ") {
		return Listener{}, fmt.Errorf("host %q is not a name or an address", host)
	}
	return Listener{Name: name, Host: host, Port: uint16(n)}, nil
}

// parseProtocol reads NAME:PROTOCOL.
func parseProtocol(item string) (name, protocol string, ok bool) {
	name, protocol, ok = strings.Cut(strings.ToUpper(item), ":")
	return name, protocol, ok && listenerName.MatchString(name) && protocol == "PLAINTEXT"
}

func parseListeners(text string) []Listener {
	var all []Listener
	for _, item := range splitList(text) {
		if l, err := parseListener(item); err == nil {
			all = append(all, l)
		}
	}
	return all
}

// resolveListeners fills Listeners and AdvertisedListeners. What does not fit
// together is left for checkListeners.
func (b *Broker) resolveListeners() {
	b.Listeners = parseListeners(b.text(BrokerKey("listeners")))
	protocols := make(map[string]string)
	for _, item := range splitList(b.text(BrokerKey("listener.security.protocol.map"))) {
		if name, protocol, ok := parseProtocol(item); ok {
			protocols[name] = protocol
		}
	}
	advertised := make(map[string]Listener)
	for _, l := range parseListeners(b.text(BrokerKey("advertised.listeners"))) {
		advertised[l.Name] = l
	}
	b.AdvertisedListeners = nil
	for i := range b.Listeners {
		l := &b.Listeners[i]
		l.Protocol = protocols[l.Name]
		if l.Protocol == "" && l.Name == "PLAINTEXT" {
			l.Protocol = "PLAINTEXT"
		}
		a, ok := advertised[l.Name]
		if !ok {
			a = *l
			if a.everyInterface() {
				a.Host = ""
			}
		}
		a.Protocol = l.Protocol
		b.AdvertisedListeners = append(b.AdvertisedListeners, a)
	}
}

// checkListeners returns the name of the setting that is wrong, and how.
func (b *Broker) checkListeners() (string, error) {
	if len(b.Listeners) == 0 {
		return "listeners", errors.New("there is none; expected at least one NAME://host:port")
	}
	seen := make(map[string]bool)
	for _, l := range b.Listeners {
		if seen[l.Name] {
			return "listeners", fmt.Errorf("the name %s occurs twice", l.Name)
		}
		seen[l.Name] = true
		if l.Protocol == "" {
			return "listener.security.protocol.map", fmt.Errorf("has no protocol for the listener %s; add %s:PLAINTEXT "+
				"(no other protocol is there yet)", l.Name, l.Name)
		}
	}
	advertised := make(map[string]bool)
	for _, l := range parseListeners(b.text(BrokerKey("advertised.listeners"))) {
		switch {
		case advertised[l.Name]:
			return "advertised.listeners", fmt.Errorf("the name %s occurs twice", l.Name)
		case !seen[l.Name]:
			return "advertised.listeners", fmt.Errorf("%s is not among the names in listeners", l.Name)
		case l.everyInterface():
			return "advertised.listeners", fmt.Errorf("%s is no address that a client could connect to", l)
		case l.Port == 0:
			return "advertised.listeners", fmt.Errorf("%s has port 0, which no client could connect to", l)
		}
		advertised[l.Name] = true
	}
	return "", nil
}

// hostPortOrNone accepts host:port and the empty text.
func hostPortOrNone(s string) (string, bool) {
	if s == "" {
		return s, true
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return s, err == nil
}
