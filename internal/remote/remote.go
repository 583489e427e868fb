// Package remote has the checks that the web page and the HTTP API make of a request before they
// look at rights.
package remote

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Hosts are the host names under which clients reach a server. The nil Hosts allow every host name,
// except on connections that arrive at a loopback address.
type Hosts map[string]bool

// With returns the hosts with more names. The name "*" allows every host name.
func (h Hosts) With(names ...string) Hosts {
	if h == nil {
		h = make(Hosts)
	}
	for _, name := range names {
		h[normal(name)] = true
	}
	return h
}

// Allow reports whether the request's Host header names this server. In an attack by DNS rebinding,
// the header has a host name of the attacker. An IP address needs no DNS entry, so it is always
// allowed.
func (h Hosts) Allow(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if h["*"] || h == nil && !Loopback(at) {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = normal(host)
	return host == "localhost" || h[host]
}

func normal(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// Loopback reports whether only programs of this machine can reach the address.
func Loopback(at net.Addr) bool {
	switch at := at.(type) {
	case *net.TCPAddr:
		return at.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Address returns the address of a client without its port, for limits and the audit log. A client
// with IPv6 usually has a whole network of 64 bits, so Address returns that network.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}

// PerSecond is how many records of refused requests an audit log gets in a second.
const PerSecond = 20

// Records limits the records of refused requests, which anybody can cause. It is safe for
// concurrent use.
type Records struct {
	mu      sync.Mutex
	at      int64 // a time in seconds
	written int   // how many records were written at that time
	left    int   // left out since the last written record
}

// Next reports whether a record may be written now. If so, it also returns how many records were
// left out since the last written record. The time now is in seconds since 1970.
func (c *Records) Next(now int64) (ok bool, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != now {
		c.at, c.written = now, 0
	}
	if c.written >= PerSecond {
		c.left++
		return false, 0
	}
	c.written++
	left, c.left = c.left, 0
	return true, left
}
