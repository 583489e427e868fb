package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// at returns the settings of a store for one server.
func at(addr string) redisstore.Config { return redisstore.Config{Addrs: []string{addr}} }

// patient is like at, for a store that does not give up a server which is silent for some seconds.
func patient(addr string) redisstore.Config {
	c := at(addr)
	c.Dial = server.PatientDial
	return c
}

// single returns the settings of a plain client for one server.
func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// fresh adds an option with an empty record of run ids to opts. The server of an earlier test may
// have had the same port. With a shared record, the present server would seem to be the earlier one
// after a restart.
func fresh(opts []redisstore.Option) []redisstore.Option {
	return append([]redisstore.Option{redisstore.RememberRunIDs(&runIDs{m: map[string]string{}})}, opts...)
}

type runIDs struct {
	mu sync.Mutex
	m  map[string]string
}

func (r *runIDs) Load(server string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[server], nil
}

func (r *runIDs) Store(server, line string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[server] = line
	return nil
}

func open(ctx context.Context, srv *server.Server, opts ...redisstore.Option) (driver.Store, error) {
	s, err := redisstore.Open(ctx, at(srv.Addr()), fresh(opts)...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// opened opens a store, which is patient and is closed at the end of the test.
func opened(t testing.TB, addr string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	return openedAt(t, patient(addr), opts...)
}

func openedAt(t testing.TB, c redisstore.Config, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), c, fresh(opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// rawClient returns a client with which the test itself sends commands.
func rawClient(t testing.TB, o rueidis.ClientOption) rueidis.Client {
	t.Helper()
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask sends one command on a connection of its own.
func ask(t testing.TB, srv *server.Server, args ...string) string {
	t.Helper()
	o := single(srv.Addr())
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return askBy(t, c, args...)
}

func askBy(t testing.TB, c rueidis.Client, args ...string) string {
	t.Helper()
	m, err := c.Do(context.Background(), c.B().Arbitrary(args...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	if err != nil {
		t.Fatalf("%s: %v", args[0], err)
	}
	s, err := m.ToString()
	if err != nil {
		n, _ := m.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	return s
}

func request(name string) driver.Request {
	return driver.Request{
		Name: name, Token: driver.TokenOf(newToken()), TTL: 50 * time.Second,
		Holder: driver.Holder{Host: "host.example", PID: 4711, Label: "nightly"},
	}
}

func reading(r driver.Request) driver.Request {
	r.Shared = true
	return r
}

func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire of %q: %v", r.Name, err)
	}
	return g
}

func free(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0)
	if err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release of %q: %v, %v", r.Name, out, err)
	}
}

func wantIs(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: want %v, got: %v", what, target, err)
	}
}

// eventually calls yes until it returns true, for at most a minute.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(time.Minute)
	for !yes() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		<-tick.C
	}
}

// bench is a server with a proxy for each store, for a suite that breaks connections and restarts
// the server.
type bench struct {
	t    testing.TB
	srv  *server.Server
	opts []redisstore.Option
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, o server.RedisOptions, opts ...redisstore.Option) *bench {
	srv := server.Redis(t, o)
	return &bench{t: t, srv: srv, opts: opts, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		return redisstore.Open(ctx, at(addr), fresh(b.opts)...)
	})
}

func (b *bench) harness() drivertest.Harness {
	return drivertest.Harness{
		Open:          b.open,
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(changes),
		Restart:       b.srv.Crash,
		Pause:         b.srv.Freeze,
	}
}

// changes reports whether a request changes the lock: it runs a script or is a SET.
func changes(request []byte) bool {
	return bytes.Contains(request, []byte("EVAL")) || bytes.Contains(request, []byte("\nSET\r"))
}

// symfony takes a name as PHP's Symfony does.
func symfony(c rueidis.Client, name, token string, ttl time.Duration) (release func() error, err error) {
	ctx := context.Background()
	til := time.Now().Add(ttl).UnixMilli()
	for _, cmd := range []rueidis.Completed{
		c.B().Zadd().Key(name).ScoreMember().ScoreMember(float64(til), token).ScoreMember(float64(til), "__write__").Build(),
		c.B().Pexpireat().Key(name).MillisecondsTimestamp(til).Build(),
	} {
		if err := c.Do(ctx, cmd).Error(); err != nil {
			return nil, err
		}
	}
	return func() error {
		return c.Do(ctx, c.B().Zrem().Key(name).Member(token, "__write__").Build()).Error()
	}, nil
}

// plainLock takes a name as the plain recipe does.
func plainLock(c rueidis.Client, name, token string, ttl time.Duration) (release func() error, err error) {
	ctx := context.Background()
	err = c.Do(ctx, c.B().Set().Key(name).Value(token).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
	return func() error {
		return rueidis.NewLuaScript(compareAndDelete).Exec(ctx, c, []string{name}, []string{token}).Error()
	}, err
}

// companion returns the companion key that belongs to name and to the given letter.
func companion(t testing.TB, c rueidis.Client, letter, name string) string {
	t.Helper()
	keys, err := c.Do(context.Background(), c.B().Keys().Pattern("padlock:{???}"+letter+":"+name).Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 {
		return "none"
	}
	return keys[0]
}

func callsOf(t testing.TB, srv *server.Server, command string) int64 {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(ask(t, srv, "INFO", "commandstats"))
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
