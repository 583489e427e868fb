package redissession_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
	"github.com/redis/rueidis"
)

// TestMain also runs the programs that tests start as processes of their own.
func TestMain(m *testing.M) {
	if addr := os.Getenv("PADLOCK_TEST_WORKER"); addr != "" {
		os.Exit(worker(addr, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// clientOption returns a client's settings for the server at addr.
func clientOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true}
}

// client is the test's own connection to a server. newRedis opens the same server.
type client struct {
	rueidis.Client
	option rueidis.ClientOption
}

func dial(t testing.TB, o rueidis.ClientOption) client {
	t.Helper()
	c, err := rueidis.NewClient(o)
	noError(t, err)
	t.Cleanup(c.Close)
	return client{c, o}
}

// newRedis opens the server that c is connected to.
func newRedis(t testing.TB, c client, opts ...redissession.Option) *redissession.Redis {
	t.Helper()
	r, err := redissession.Open(t.Context(), place(c.option), opts...)
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close()) })
	return r
}

// place returns the Config for the servers of o. It sets Cluster unless o selects a database. Even
// then, as with o, a server that is not a cluster works too. The lock store does not give up a
// server that is silent for some seconds.
func place(o rueidis.ClientOption) redisstore.Config {
	return redisstore.Config{Addrs: o.InitAddress, DB: o.SelectDB, Credentials: redisstore.Login(o.Username, o.Password), Cluster: o.SelectDB == 0, Dial: server.PatientDial}
}

// newLocker returns a Locker in a Redis that was just started.
func newLocker(t testing.TB, o rueidis.ClientOption, opts ...redisstore.Option) *padlock.Locker {
	t.Helper()
	s, err := redisstore.Open(t.Context(), place(o), opts...)
	noError(t, err)
	l := padlock.New(s)
	t.Cleanup(func() { l.Close(context.Background()); s.Close() })
	return l
}

// patient lets requests wait long enough on a busy machine.
var patient = session.MaxWait(time.Minute)

var plain = session.Cookie{Insecure: true}

func newManager(t testing.TB, s sessionstore.Store, l *padlock.Locker, opts ...session.Option) *session.Manager {
	t.Helper()
	m, err := session.New(s, append([]session.Option{session.Locker(l), plain, patient}, opts...)...)
	noError(t, err)
	return m
}

// serve starts a web server with h.
func serve(t testing.TB, h http.Handler) *load.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	c := load.NewClient(srv.URL, 200)
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// askServer sends one command and returns the reply as text; nil is "".
func askServer(t testing.TB, c rueidis.Client, args ...string) string {
	t.Helper()
	m, err := c.Do(context.Background(), c.B().Arbitrary(args...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	noError(t, err)
	if n, err := m.AsInt64(); err == nil && m.IsInt64() {
		return strconv.FormatInt(n, 10)
	}
	s, err := m.ToString()
	noError(t, err)
	return s
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startRedis(t testing.TB) *server.Server {
	t.Helper()
	return server.Redis(t, server.RedisOptions{})
}
