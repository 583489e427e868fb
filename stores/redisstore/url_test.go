package redisstore

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

func parsed(t *testing.T, raw string) (*redisconn.Server, config, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	server, opts, err := redisconn.ReadURL(u, params)
	c := defaults()
	for _, o := range opts {
		o(&c)
	}
	return server, c, err
}

func TestURLPlaces(t *testing.T) {
	for _, row := range []struct {
		raw   string
		addrs []string
		db    int
		user  string
		set   string
		tls   bool
	}{
		{"redis://example.org", []string{"example.org:6379"}, 0, "", "", false},
		{"redis://:s%23cret@example.org:1234/3", []string{"example.org:1234"}, 3, "", "", false},
		{"redis://u:s%23cret@[::1]:1/?db=4", []string{"[::1]:1"}, 4, "u", "", false},
		{"rediss://u:s%23cret@example.org", []string{"example.org:6379"}, 0, "u", "", true},
		{"redis+unix:///run/redis.sock?db=2", []string{"/run/redis.sock"}, 2, "", "", false},
		{"redis:///run/redis.sock", []string{"/run/redis.sock"}, 0, "", "", false},
		{"redis+sentinel://a,b:7/main", []string{"a:26379", "b:7"}, 0, "", "main", false},
		{"redis+sentinel://a/main/5?tls=yes&node=c:1&node=d:2", []string{"a:26379", "c:1", "d:2"}, 5, "", "main", true},
		{"redis+cluster://a,b:1", []string{"a:6379", "b:1"}, 0, "", "", false},
		{"rediss+sentinel://a,b:7/main", []string{"a:26379", "b:7"}, 0, "", "main", true},
		{"rediss+cluster://a,b:1?server-name=c", []string{"a:6379", "b:1"}, 0, "", "", true},
	} {
		c, _, err := parsed(t, row.raw)
		if err != nil {
			t.Errorf("%s: %v", row.raw, err)
			continue
		}
		if addrs := c.Addresses(); !reflect.DeepEqual(addrs, row.addrs) || c.DB != row.db ||
			c.Sentinel.MasterName != row.set || (c.TLS != nil) != row.tls || c.Cluster != strings.Contains(row.raw, "cluster") {
			t.Errorf("%s is read as %+v", row.raw, c)
		}
		if hasLogin := strings.Contains(row.raw, "s%23cret"); hasLogin != (c.Credentials != nil) {
			t.Errorf("%s: has a login: %v", row.raw, hasLogin)
		} else if hasLogin {
			if user, password, err := c.Credentials(t.Context()); user != row.user || password != "s#cret" || err != nil {
				t.Errorf("%s: the login is %q, %q, %v", row.raw, user, password, err)
			}
		}
	}
}

func TestURLOptions(t *testing.T) {
	ninety := 90 * time.Second
	_, c, err := parsed(t, "redis://h?layout=string&fences=no&fence-keep=2h&prefix=a:&foreign=yes&only-padlock=yes&max-ttl=90s"+
		"&restart-guard=strict&run-ids=/x&eviction=allow&durable=yes&lazy=yes")
	want := config{
		strings: true, keep: 2 * time.Hour, prefix: "a:", foreign: true, alone: true, maxTTL: &ninety, guard: GuardStrict,
		runIDs: RunIDDir("/x"), evicts: true, durable: true, lazy: true,
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("the options are\n%+v, want\n%+v, %v", c, want, err)
	}
	_, c, err = parsed(t, "redis://h?layout=set&fences=yes&foreign=no&only-padlock=no&restart-guard=known&eviction=refuse&durable=no&lazy=no")
	if err != nil || !reflect.DeepEqual(c, defaults()) {
		t.Errorf("the options are %+v, want the defaults, %v", c, err)
	}
}

func TestURLRefused(t *testing.T) {
	for _, raw := range []string{
		"redis:h", "redis://h#x", "redis://", "redis:///3", "http://h", "redis://h,i", "redis://h/x", "redis://h/0/1", "redis://h/-1",
		"redis://u@h", "redis://u:@h", "redis+sentinel://h", "redis+sentinel://h/", "redis+cluster://h/0", "redis+cluster://a,,b",
		"redis+unix://h/x", "redis+unix:///", "rediss:///x", "redis+unix://", "redis://h?x=1", "redis://h?layout=list", "redis://h?fences=1",
		"redis://h?max-ttl=5", "redis://h?replicas=1", "redis://h?ca=", "rediss://h?ca=", "redis://h?tls-verify=no", "redis://h?db=1&db=2", "redis://h?db=x", "redis://h?node=x",
		"redis://h?ca=x", "rediss://h?ca=/does/not/exist", "rediss://h?cert=/x", "redis://h?restart-guard=no", "redis://h?%zz",
		"redis://h/1?db=2", "redis://h/1?db=", "redis://h?db=", "redis+sentinel://h/s/1?db=2", "redis+unix:///run/redis.sock?db=", "redis+cluster://h?db=",
	} {
		if _, _, err := parsed(t, raw); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: want ErrInvalid, got: %v", raw, err)
		}
	}
	for _, ttl := range []string{"25h", "-5s"} {
		if _, err := FromURL(t.Context(), &url.URL{Scheme: "redis", Host: "h", RawQuery: "lazy=yes&max-ttl=" + ttl}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a max-ttl of %s: %v", ttl, err)
		}
	}
}

func TestURLTLS(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, says := range map[string]string{
		"ca=" + ca:                       "ca: there is no certificate in " + ca,
		"ca=/does/not/exist":             "ca: open /does/not/exist: no such file",
		"cert=/does/not/exist":           "cert and key: name both files",
		"key=/does/not/exist":            "cert and key: name both files",
		"cert=/does/not/exist&key=" + ca: "cert and key: open /does/not/exist: no such file",
		"cert=" + ca + "&key=" + ca:      "cert and key: tls: failed to find any PEM data",
	} {
		if _, _, err := parsed(t, "rediss://h?"+query); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", query, err)
		}
	}
	s, _, err := parsed(t, "redis+sentinel://h/s?tls=yes&server-name=n&tls-verify=no")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.TLS; c.ServerName != "n" || !c.InsecureSkipVerify {
		t.Errorf("TLS is %+v", c)
	}
}

// TestOpening opens URLs in the ways of package open. The URL wins over all of them but Lenient.
func TestOpening(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		query                 string
		o                     storeurl.Opening
		evicts, durable, lazy bool
		keep                  time.Duration
	}{
		{"lazy=yes&durable=yes", storeurl.Opening{}, false, true, true, DefaultFenceKeep},
		{"durable=yes&eviction=refuse&lazy=no", storeurl.Opening{Lenient: true, ForgetSoon: true}, true, false, true, time.Minute},
		{"fence-keep=2m", storeurl.Opening{Lazy: true, ForgetSoon: true, StateDir: dir}, false, false, true, 2 * time.Minute},
	} {
		u, err := url.Parse("redis://127.0.0.1:1?" + row.query)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := Scheme().Open(t.Context(), u, row.o)
		if err != nil {
			t.Errorf("%q: %v", row.query, err)
			continue
		}
		s := opened.(*Store)
		if c := s.config; c.evicts != row.evicts || c.durable != row.durable || c.lazy != row.lazy || c.keep != row.keep || (c.runIDs == RunIDDir(dir)) != (row.o.StateDir != "") {
			t.Errorf("%q: %+v", row.query, c)
		}
		if u.RawQuery != row.query {
			t.Errorf("%q became %q", row.query, u.RawQuery)
		}
		s.Close()
	}
}
