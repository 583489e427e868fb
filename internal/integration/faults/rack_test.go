package faults

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// patience is how long a test waits for an event.
const patience = 30 * time.Second

// trouble is what a proxy does to requests and to replies.
type trouble struct{ requests, replies server.Trouble }

var (
	cut          = trouble{requests: server.Trouble{Reset: true}}
	loseRequests = trouble{requests: server.Trouble{Lose: true}}
	loseReplies  = trouble{replies: server.Trouble{Lose: true}}
	lateRequests = trouble{requests: server.Trouble{Delay: 20 * time.Second}}
	slowReplies  = trouble{replies: server.Trouble{Delay: 20 * time.Second}}
	jitter       = trouble{replies: server.Trouble{Delay: 3 * time.Millisecond, Jitter: 3 * time.Millisecond}}
)

// rack is some independent servers.
type rack struct {
	t       testing.TB
	servers []*server.Server
}

// runIDs contains the run ids of servers that one process remembers. The tests of this binary do
// not share one runIDs, because a port may have belonged to a proxy of another test. The server
// behind that port would look like one that has restarted.
type runIDs struct{ m sync.Map }

func (r *runIDs) Load(srv string) (string, error) {
	line, _ := r.m.LoadOrStore(srv, "")
	return line.(string), nil
}

func (r *runIDs) Store(srv, line string) error {
	r.m.Store(srv, line)
	return nil
}

func newRack(t testing.TB, n int) *rack {
	r := &rack{t: t}
	for range n {
		r.servers = append(r.servers, server.Redis(t, server.RedisOptions{}))
	}
	return r
}

// client is one process: a quorum, its members, and a proxy in front of each.
type client struct {
	*quorum.Store
	t       testing.TB
	members []*redisstore.Store
	ways    []*server.Proxy
}

// client makes a client of all servers with Majority.
func (r *rack) client(opts ...redisstore.Option) *client {
	r.t.Helper()
	return r.clientOf(quorum.Majority, r.servers, opts...)
}

func (r *rack) clientOf(rule quorum.Rule, servers []*server.Server, opts ...redisstore.Option) *client {
	r.t.Helper()
	c := &client{t: r.t}
	var stores []driver.Store
	opts = append([]redisstore.Option{redisstore.RememberRunIDs(&runIDs{})}, opts...)
	for _, srv := range servers {
		way := server.NewProxy(r.t, srv.Addr())
		m := member(r.t, way.Addr(), opts...)
		c.ways, c.members, stores = append(c.ways, way), append(c.members, m), append(stores, m)
	}
	q, err := quorum.New(rule, stores)
	if err != nil {
		r.t.Fatal(err)
	}
	c.Store = q
	r.t.Cleanup(func() {
		if err := q.Close(); err != nil {
			r.t.Errorf("Close: %v", err)
		}
	})
	return c
}

// member opens a store that somebody else closes. It may be down.
func member(t testing.TB, addr string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{addr}}, append([]redisstore.Option{redisstore.Lazy()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// direct returns the store of a member without a proxy in between.
func (r *rack) direct(i int) *redisstore.Store {
	r.t.Helper()
	s := member(r.t, r.servers[i].Addr(), redisstore.RememberRunIDs(&runIDs{}))
	r.t.Cleanup(func() { s.Close() })
	return s
}

// spoil makes trouble on the ways to some members.
func (c *client) spoil(t trouble, members ...int) {
	for _, i := range members {
		c.ways[i].Disturb(t.requests, t.replies)
	}
}

// heal ends the trouble, and closes the connections that lost data.
func (c *client) heal(members ...int) { c.spoil(trouble{}, members...) }

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token()), TTL: 50 * time.Second, Holder: driver.Holder{Host: "host.example", PID: 4711}}
}

func token() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// unanswered has the tests in which a request had no answer from enough members.
var unanswered sync.Map

// answered asks until enough members have answered, and returns what they said. A quorum waits for
// half a second for a member, and a busy machine may keep a member waiting for longer.
func answered(t testing.TB, what string, ask func() error) (err error) {
	t.Helper()
	eventually(t, what+" is answered", func() bool {
		if err = ask(); silence(err) {
			t.Logf("%s: %v", what, err)
			unanswered.Store(t, true)
		}
		return !silence(err)
	})
	return err
}

// take expects a grant. A request that had no answer is sent again with another token, because the
// quorum gives back, in the background, what a member grants to the first one. Until then the name
// may be held, but not for the 50 s of a lease. In a test whose requests all had answers, a name that
// is held is an error at once.
func take(t testing.TB, s driver.Store, r *driver.Request) (g driver.Grant) {
	t.Helper()
	err := answered(t, "Acquire", func() (err error) {
		g, err = s.Acquire(t.Context(), *r)
		if err != nil {
			r.Token = driver.TokenOf(token())
		}
		if _, ok := unanswered.Load(t); ok && errors.Is(err, driver.ErrHeld) {
			return fmt.Errorf("%w: %v", driver.ErrUncertain, err)
		}
		return err
	})
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return g
}

// refused expects another client to get ErrHeld.
func refused(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	var g driver.Grant
	err := answered(t, "Acquire", func() (err error) {
		g, err = s.Acquire(t.Context(), r)
		r.Token = driver.TokenOf(token())
		return err
	})
	safety.Refused(t, err, r.Name)
	if !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("Acquire of a name that another client holds: %+v, %v", g, err)
	}
}

// extend expects the hold to be extended.
func extend(t testing.TB, s driver.Store, r driver.Request, ttl time.Duration) (g driver.Grant) {
	t.Helper()
	err := answered(t, "Extend", func() (err error) {
		g, err = s.Extend(t.Context(), r.Name, r.Token.Text(), ttl)
		return err
	})
	if err != nil || g.TTL <= 0 {
		t.Fatalf("Extend: %+v, %v", g, err)
	}
	return g
}

// free expects the hold to be released. A Release that had no answer may have been carried out.
func free(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	var out driver.Outcome
	asked := 0
	err := answered(t, "Release", func() (err error) {
		asked++
		out, err = s.Release(t.Context(), r.Name, r.Token.Text(), 0)
		return err
	})
	if err != nil || asked == 1 && out != driver.OutcomeReleased {
		t.Fatalf("Release: %v, %v", out, err)
	}
}

func wantIs(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: want %v, got: %v", what, target, err)
	}
}

// wantSilence checks that a request is refused because too few members answered, and not because
// the name is held.
func wantSilence(t testing.TB, err error, what string) {
	t.Helper()
	if !silence(err) {
		t.Fatalf("%s: %v", what, err)
	}
}

// eventually calls yes until it returns true.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for !yes() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-tick.C
	}
}

// holds reports whether a member has a hold on the name, or may have one.
func holds(t testing.TB, s *redisstore.Store, name string) bool {
	t.Helper()
	st, err := s.Inspect(t.Context(), name)
	return err != nil || len(st.Holds) > 0
}

// nothingLeft waits until no server has a hold or a waiter. If the leases last a minute, the
// clean-up has removed the holds before they expired.
func (r *rack) nothingLeft() {
	r.t.Helper()
	for i := range r.servers {
		s := r.direct(i)
		var left []driver.State
		var err error
		deadline := time.Now().Add(patience)
		for left, err = s.List(r.t.Context(), ""); err != nil || len(left) > 0; left, err = s.List(r.t.Context(), "") {
			if time.Now().After(deadline) {
				r.t.Fatalf("after %v there is left on server %d: %+v, %v", patience, i, left, err)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
}
