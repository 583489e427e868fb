package mongostore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mongostore"
)

// serverURL returns the URL that an environment variable names, or skips the test. The servers are
// in no Debian package, so the test is skipped under CI too.
func serverURL(t *testing.T, variable string) *url.URL {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		t.Skipf("%s is not set: give the URL of a server whose database padlock_test may be filled", variable)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/"
	return u
}

// with sets a parameter in a copy of u, and returns the copy.
func with(u *url.URL, name, value string) *url.URL {
	there, query := *u, u.Query()
	query.Set(name, value)
	there.RawQuery = query.Encode()
	return &there
}

// A bench opens stores on one server. If the URL names one server without TLS, there is a proxy for
// each store.
type bench struct {
	config                        mongostore.Config
	opts                          []mongostore.Option
	*server.Proxies[driver.Store] // nil if there are no proxies
}

func newBench(t *testing.T, u *url.URL, opts ...mongostore.Option) *bench {
	b := &bench{opts: opts}
	b.config = mongostore.Config{URI: u.String(), Database: "padlock_test", Collection: "test-" + rand.Text()}
	addresses, encrypted := mongostore.Scheme().Servers(u)
	if len(addresses) != 1 || encrypted {
		return b
	}
	b.Proxies = server.NewProxies[driver.Store](t, addresses[0])
	query := u.Query()
	query.Del("replicaSet") // its members would be reached without the proxy
	query.Set("directConnection", "true")
	direct := *u
	direct.RawQuery = query.Encode()
	b.config.URI = direct.String()
	return b
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	if b.Proxies == nil {
		return mongostore.Open(ctx, b.config, b.opts...)
	}
	return b.Open(func(addr string) (driver.Store, error) {
		c := b.config
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		return mongostore.Open(ctx, c, b.opts...)
	})
}

func (b *bench) harness() drivertest.Harness {
	h := drivertest.Harness{Open: b.open, Slow: true}
	if b.Proxies != nil {
		h.CutConnection, h.LoseReply, h.Pause = b.Cut, b.LoseReply(changes), b.pause
	}
	return h
}

// pause makes the server silent for all stores.
func (b *bench) pause() (resume func() error, err error) {
	b.Silence(true)
	return func() error { b.Silence(false); return nil }, nil
}

// changes returns true for a request that can change a lock.
func changes(request []byte) bool {
	for _, command := range []string{"findAndModify", "update", "delete"} {
		if bytes.Contains(request, []byte("\x02"+command+"\x00")) {
			return true
		}
	}
	return false
}

func TestContract(t *testing.T) {
	b := newBench(t, serverURL(t, "MONGODB_URL"))
	h := b.harness()
	h.Foreign = b.foreign(t)
	drivertest.Run(t, h)
}

func TestContractInSymfonysLayout(t *testing.T) {
	u := serverURL(t, "MONGODB_URL")
	h := newBench(t, u, mongostore.SymfonyLayout()).harness()
	h.Anonymous = true
	drivertest.Run(t, h)
}

// symfony opens the store for a DSN as package open does.
func symfony(t *testing.T, dsn string) *mongostore.Store {
	t.Helper()
	u, err := mongostore.Scheme().FromSymfony(dsn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mongostore.FromURL(t.Context(), u)
	if err != nil {
		t.Fatal(strings.ReplaceAll(err.Error(), dsn, "…"))
	}
	t.Cleanup(func() { s.Close() })
	return s
}
