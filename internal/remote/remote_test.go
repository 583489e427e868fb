package remote

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHosts(t *testing.T) {
	inside, outside := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}
	none, some, all := Hosts(nil), Hosts(nil).With("Locks.example.org."), Hosts(nil).With("*")
	for _, c := range []struct {
		hosts Hosts
		at    net.Addr
		host  string
		want  bool
	}{
		{none, outside, "evil.example", true},
		{none, inside, "evil.example", false},
		{none, &net.UnixAddr{}, "evil.example", false},
		{none, inside, "localhost:7925", true},
		{none, inside, "127.0.0.1:7925", true},
		{none, inside, "[::1]", true},
		{none.With(), outside, "evil.example", false},
		{some, outside, "locks.example.org:443", true},
		{some, outside, "LOCKS.example.org.", true},
		{some, outside, "evil.example", false},
		{some, inside, "evil.example", false},
		{all, inside, "evil.example", true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.at))
		if r.Host = c.host; c.hosts.Allow(r) != c.want {
			t.Errorf("%v, a connection at %v: Host %q is allowed: %v", c.hosts, c.at, c.host, !c.want)
		}
	}
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "@": "@", "name:80": "name",
	} {
		if got := Address(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

func TestRecords(t *testing.T) {
	var c Records
	for i := range PerSecond + 3 {
		if ok, left := c.Next(7); ok != (i < PerSecond) || left != 0 {
			t.Errorf("record %d: %v, %d left out", i, ok, left)
		}
	}
	if ok, left := c.Next(8); !ok || left != 3 {
		t.Errorf("a second later: %v, %d left out, want 3", ok, left)
	}
}
