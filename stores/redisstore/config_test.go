package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// TestConfigContradictions: settings that contradict each other are refused, and the error names
// them.
func TestConfigContradictions(t *testing.T) {
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	one := []string{"h:1"}
	for _, row := range []struct {
		c    Config
		says string
	}{
		{Config{}, "set Addrs or Socket"},
		{Config{Addrs: one, Socket: "/s"}, "Addrs and Socket are both set"},
		{Config{Addrs: []string{"h:1", "i:1"}}, "neither Cluster nor Sentinel is set"},
		{Config{Addrs: []string{"h"}}, `"h" is not of the form HOST:PORT`},
		{Config{Addrs: []string{"h:"}}, `"h:" is not of the form HOST:PORT`},
		{Config{Socket: "/s", Cluster: true}, "Socket: a cluster"},
		{Config{Socket: "/s", Sentinel: Sentinel{MasterName: "m"}}, "Socket: a cluster"},
		{Config{Socket: "/s", TLS: &tls.Config{}}, "Redis has no TLS on a Unix socket"},
		{Config{Addrs: one, Cluster: true, Sentinel: Sentinel{MasterName: "m"}}, "Cluster and Sentinel are both set"},
		{Config{Addrs: one, Cluster: true, DB: 1}, "DB: it is 1"},
		{Config{Addrs: one, DB: -1}, "DB: it is -1"},
		{Config{Addrs: one, Sentinel: Sentinel{Credentials: ask}}, "Sentinel: there is a login but no MasterName"},
		{Config{Addrs: one, ClientName: "two words"}, "ClientName"},
	} {
		s, err := Open(t.Context(), row.c, Lazy())
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: want %q, got: %v", row.c, row.says, err)
		}
	}
	if _, err := Open(t.Context(), Config{Addrs: one}, Lazy(), RestartGuard(7)); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a Guard that does not exist: %v", err)
	}
	for _, c := range []Config{
		{Addrs: one}, {Addrs: []string{":6379"}}, {Addrs: []string{"[::1]:6379"}, DB: 3, ClientName: "web-1"},
		{Socket: "/s", DB: 1}, {Addrs: []string{"h:1", "i:1"}, Cluster: true, TLS: &tls.Config{}},
		{Addrs: []string{"h:1", "i:1"}, DB: 1, Credentials: ask, Sentinel: Sentinel{MasterName: "m", Credentials: Login("u", "secret")}},
	} {
		s, err := Open(t.Context(), c, Lazy())
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		s.Close()
	}
}

// TestConfigIsCopied: a change of a Config after Open has no effect.
func TestConfigIsCopied(t *testing.T) {
	c := Config{Addrs: []string{"h:1"}, TLS: &tls.Config{ServerName: "h"}}
	s, err := Open(t.Context(), c, Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.Addrs[0], c.TLS.ServerName = "other:1", "other"
	if s.server.Addrs[0] != "h:1" || s.server.TLS.ServerName != "h" {
		t.Errorf("the store now has %v and %q", s.server.Addrs, s.server.TLS.ServerName)
	}
}

// TestPasswordInTwoPlaces: a URL is refused if it gives a password twice, or gives a login for
// sentinels but names no sentinels.
func TestPasswordInTwoPlaces(t *testing.T) {
	for raw, says := range map[string]string{
		"redis://:x@h?password-file=/f":                                      "the password is in the URL and in a file",
		"redis+sentinel://h/m?sentinel-password=x&sentinel-password-file=/f": "sentinel-password and sentinel-password-file are both given",
		"redis+sentinel://h/m?sentinel-user=u":                               "sentinel-user needs",
		"redis://h?sentinel-password=x":                                      "but no sentinels",
		"redis://h?password-file=":                                           "write the path of a file",
		"redis:///run/redis.sock?tls=yes":                                    "no TLS on a Unix socket",
		"redis:///run/redis.sock?node=h:1":                                   "Addrs and Socket are both set",
		"redis://h?node=i:1":                                                 "names one host",
		"redis+cluster://h?db=1":                                             "in a cluster only 0",
	} {
		if _, _, err := parsed(t, raw); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want %q, got: %v", raw, says, err)
		}
	}
	s, _, err := parsed(t, "redis://u@h?password-file=/does/not/exist")
	if err != nil || s.Credentials == nil {
		t.Fatalf("a user with password-file is read as %+v, %v", s, err)
	}
	if _, _, err := s.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), "password-file: open /does/not/exist") {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// Two stores with one address are in one place, also with other prefixes. Sentinels of one address
// may watch several servers.
func TestSamePlace(t *testing.T) {
	at := func(master string, addrs ...string) *Store {
		c := Config{Addrs: addrs}
		c.Sentinel.MasterName = master
		s, err := Open(t.Context(), c, Lazy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	one := at("", "a:1")
	for i, c := range []struct {
		a, b *Store
		want bool
	}{
		{one, at("", "a:1"), true}, {one, at("", "a:2"), false},
		{at("x", "a:1", "b:1"), at("x", "b:1"), true}, {at("x", "a:1"), at("y", "a:1"), false},
	} {
		if driver.SamePlace(c.a, c.b) != c.want {
			t.Errorf("case %d: want %v", i, c.want)
		}
	}
}
