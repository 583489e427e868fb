package memcachestore_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

func startPHP(t *testing.T, dsn string) *server.PHP {
	t.Helper()
	needs := server.PHPNeeds{Extension: "memcached", Symfony: []string{"Lock", "Cache"}}
	return server.StartPHP(t, needs, "testdata/lock.php", dsn)
}

// symfony opens the store for a DSN as package open does.
func symfony(t *testing.T, dsn string) *memcachestore.Store {
	t.Helper()
	u, err := memcachestore.Scheme().FromSymfony(dsn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := memcachestore.FromURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// PHP and padlock exclude each other in both directions. padlock opens the store with PHP's own
// DSN.
func TestSymfony(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Memcached(t)
	dsns := []string{
		"memcached://" + srv.Addr(),
		"memcached://" + srv.Addr() + "/33?prefix_key=shop:&compression=0",
		"memcached:?host[" + srv.Addr() + "]",
	}
	for i, dsn := range dsns {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p, s := startPHP(t, dsn), symfony(t, dsn)
			names := []string{"a", "report/42:daily run", "é", "a\tb", strings.Repeat("x", 170), strings.Repeat("y z", 50)}
			for _, name := range names {
				exclude(t, p, s, fmt.Sprint(i, name))
			}
		})
	}
}

func exclude(t *testing.T, p *server.PHP, s *memcachestore.Store, name string) {
	t.Helper()
	r := request(name, "GO token of "+name[:1])
	take(t, s, r)
	p.Ask("no", "acquire "+name)
	release(t, s, r, driver.OutcomeReleased)

	p.Ask("yes", "acquire "+name)
	refused(t, s, request(name, "another"))
	if _, err := s.Extend(t.Context(), name, "another", time.Minute); err == nil {
		t.Errorf("Extend of a name that PHP holds succeeds")
	}
	release(t, s, request(name, "another"), driver.OutcomeGone)
	p.Ask("yes", "refresh "+name)
	p.Ask("yes", "held "+name)
	if state, err := s.Inspect(t.Context(), name); err != nil || len(state.Holds) != 1 {
		t.Errorf("Inspect: %+v, %v; PHP holds the name", state, err)
	}
	p.Ask("yes", "release "+name)

	take(t, s, r)
	if _, err := s.Extend(t.Context(), name, r.Token.Text(), 2*time.Minute); err != nil {
		t.Error(err)
	}
	p.Ask("no", "acquire "+name)
	release(t, s, r, driver.OutcomeReleased)
	p.Ask("yes", "acquire "+name)
	p.Ask("yes", "release "+name)
}

// The layouts have different keys.
func TestLayoutsAreApart(t *testing.T) {
	t.Parallel()
	srv := server.Memcached(t)
	take(t, mustOpen(t, srv.Addr(), memcachestore.SymfonyLayout()), request("job", "one"))
	take(t, mustOpen(t, srv.Addr()), request("job", "two"))
	take(t, mustOpen(t, srv.Addr(), memcachestore.Prefix("shop:")), request("job", "three"))
}

func TestDSNs(t *testing.T) {
	for dsn, want := range map[string]string{
		"memcached://localhost":                       "memcached://localhost:11211?layout=symfony",
		"memcached://[::1]:12":                        "memcached://[::1]:12?layout=symfony",
		"memcached://h/50?weight=3&timeout=2":         "",
		"memcached://h/50?weight=3&connect_timeout=2": "memcached://h:11211?layout=symfony",
		"memcached:///run/memcached.sock":             "memcached:///run/memcached.sock?layout=symfony",
		"memcached:///run/memcached.sock/33":          "memcached:///run/memcached.sock?layout=symfony",
		"memcached:?host[h:1]":                        "memcached://h:1?layout=symfony",
		"memcached://h?prefix_key=a":                  "memcached://h:11211?layout=symfony&prefix=a",
		"memcached://h?PREFIX_KEY=a":                  "memcached://h:11211?layout=symfony&prefix=a",
		"memcached://user:secret@h":                   "",
		"memcached://h?username=user&password=secret": "",
		"memcached:?host[a]&host[b]":                  "",
		"memcached://a?host[b]":                       "",
		"memcached:":                                  "",
		"memcached:h":                                 "",
		"memcached://h?layout=hash":                   "",
		"memcached://h?secret=secret":                 "",
	} {
		u, err := memcachestore.Scheme().FromSymfony(dsn)
		if err == nil {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // the parameters are checked before ctx
			_, err = memcachestore.FromURL(ctx, with(u, "lazy", "yes"))
			if err == context.Canceled {
				err = nil
			}
		}
		switch {
		case want == "" && err == nil:
			t.Errorf("%s: no error", dsn)
		case want == "" && strings.Contains(err.Error(), "=secret"), want == "" && strings.Contains(err.Error(), "user:"):
			t.Errorf("%s: the error repeats a secret: %v", dsn, err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%s: %v, %v; want %s", dsn, u, err, want)
		}
	}
}

func with(u *url.URL, name, value string) *url.URL {
	there, query := *u, u.Query()
	query.Set(name, value)
	there.RawQuery = query.Encode()
	return &there
}
