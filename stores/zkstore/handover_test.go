package zkstore_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// A counted store counts its requests.
type counted struct {
	*zkstore.Store
	proxy *server.Proxy
	mu    sync.Mutex
	codes map[uint32]int
	onGet func() // called when the second getData passes
}

func openCounted(t testing.TB, srv *server.Server, opts ...zkstore.Option) *counted {
	t.Helper()
	c := &counted{proxy: server.NewProxy(t, srv.Addr()), codes: map[uint32]int{}}
	c.proxy.LoseReply(func(data []byte) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, code := range requests(data) {
			c.codes[code]++
		}
		if c.onGet != nil && c.codes[getData] > 1 {
			c.onGet()
			c.onGet = nil
		}
		return false
	})
	c.Store = mustOpen(t, c.proxy.Addr(), append(opts, zkstore.SessionTimeout(patient), zkstore.ReserveFor(patient))...)
	return c
}

func (c *counted) sent(code uint32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.codes[code]
}

// A waiter is a call of Wait.
type waiter struct {
	*counted
	r      driver.Request
	cancel context.CancelFunc
	got    chan driver.Grant
	lists  int // how often it had read the queue when it began to wait
}

// A waiter first reads the mapping and its own node, and one or two nodes before its own.
const (
	readsOfNext  = 3
	readsOfLater = 4
)

// waits starts a call of Wait, and returns when it has read and watches this number of nodes.
func waits(t testing.TB, srv *server.Server, name string, reads int, opts ...zkstore.Option) *waiter {
	t.Helper()
	return openCounted(t, srv, opts...).waits(t, name, reads)
}

func (c *counted) waits(t testing.TB, name string, reads int) *waiter {
	t.Helper()
	w := &waiter{counted: c, r: request(name), got: make(chan driver.Grant, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() {
		g, err := w.Wait(ctx, w.r, true)
		if err != nil && ctx.Err() == nil {
			t.Errorf("Wait: %v", err)
		}
		w.got <- g
	}()
	waitUntil(t, "a waiter that watches", func() bool { return w.sent(getData) >= reads })
	w.settle(t)
	return w
}

// settle returns when the waiter has got the answers to its earlier requests, and the events that
// came before them.
func (w *waiter) settle(t testing.TB) {
	t.Helper()
	if _, err := w.Inspect(t.Context(), "another name"); err != nil {
		t.Fatal(err)
	}
	w.lists = w.sent(children)
}

// granted waits for the grant.
func (w *waiter) granted(t testing.TB) driver.Grant {
	t.Helper()
	g := <-w.got
	if g.TTL == 0 {
		t.Fatal("Wait has returned without the lock")
	}
	return g
}

// looksAgain checks that the waiter reads the queue instead of taking the lock.
func (w *waiter) looksAgain(t testing.TB) {
	t.Helper()
	waitUntil(t, "the waiter reads the queue", func() bool {
		select {
		case g := <-w.got:
			t.Fatalf("Wait has returned %+v", g)
		default:
		}
		return w.sent(children) > w.lists
	})
}

// A hand-over needs no list: the second waiter reads the queue while the first one has the lock. A
// release wakes these two and nobody else.
func handOverWithoutList(t *testing.T, srv *server.Server) {
	opts := []zkstore.Option{zkstore.NoFences(), zkstore.SessionTimeout(patient)}
	s, r := mustOpen(t, srv.Addr(), opts...), request("handOverWithoutList")
	take(t, s, r)
	line := []*waiter{waits(t, srv, r.Name, readsOfNext-1, opts...)} // without the mapping
	for range 3 {
		line = append(line, waits(t, srv, r.Name, readsOfLater-1, opts...))
	}
	release(t, s, r)
	for i, w := range line {
		w.granted(t)
		for k, other := range line[i:] {
			other.settleAt(t, k == 1)
		}
		release(t, w, w.r)
	}
}

// settleAt checks whether the waiter has read the queue since the last call. The number of its
// lists may grow by the one of its Inspect.
func (w *waiter) settleAt(t testing.TB, looks bool) {
	t.Helper()
	before := w.lists
	if looks {
		waitUntil(t, "the second waiter reads the queue", func() bool { return w.sent(children) > before })
	}
	w.settle(t)
	want := 1
	if looks {
		want = 2
	}
	if n := w.lists - before; n != want {
		t.Errorf("%d lists instead of %d", n, want)
	}
}

// changes are what a holder can change while a waiter is the next one. Each function returns a
// fence that the waiter's fence must exceed.
var changes = map[string]func(t *testing.T, s *zkstore.Store, r driver.Request, w *waiter) uint64{
	"demotion": func(t *testing.T, s *zkstore.Store, r driver.Request, w *waiter) uint64 {
		r.Shared = true
		g, err := s.Convert(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		w.looksAgain(t)
		return g.Fence
	},
	"promotion": func(t *testing.T, s *zkstore.Store, r driver.Request, w *waiter) uint64 {
		for _, r.Shared = range []bool{true, false} {
			w.lists = w.sent(children)
			if _, err := s.Convert(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			w.looksAgain(t)
		}
		return 0
	},
	"a raised fence": func(t *testing.T, s *zkstore.Store, r driver.Request, w *waiter) uint64 {
		return raised(t, s, r)
	},
	"a raised fence while the waiter is cut off": func(t *testing.T, s *zkstore.Store, r driver.Request, w *waiter) uint64 {
		w.proxy.Silence(true)
		w.proxy.Cut()
		fence := raised(t, s, r)
		release(t, s, r)
		w.proxy.Silence(false)
		return fence
	},
	"a break": func(t *testing.T, s *zkstore.Store, r driver.Request, w *waiter) uint64 {
		st, err := s.Inspect(t.Context(), r.Name)
		if err != nil {
			t.Fatal(err)
		}
		fence, err := s.Break(t.Context(), r.Name, st.Fence)
		if err != nil {
			t.Fatal(err)
		}
		return fence
	},
}

// While a waiter is the next one, the holder changes what the waiter knows.
func holderChanges(t *testing.T, srv *server.Server) {
	for what, change := range changes {
		for _, isNew := range []bool{true, false} {
			t.Run(fmt.Sprint(what, isNew), func(t *testing.T) {
				t.Parallel()
				s, r := mustOpen(t, srv.Addr()), request(fmt.Sprint("holderChanges ", what, isNew))
				takeAgain(t, s, r, isNew)
				w, behind := waits(t, srv, r.Name, readsOfNext), waits(t, srv, r.Name, readsOfLater)
				least := change(t, s, r, w)
				s.Release(t.Context(), r.Name, r.Token.Text(), 0)
				g := w.granted(t)
				safety.Rises(t, g.Fence, least)
				release(t, w, w.r)
				safety.Rises(t, behind.granted(t).Fence, g.Fence)
			})
		}
	}
}

// takeAgain takes a name. The first holder of a new name raises its fence, which changes its node.
// If the name shall not be new, takeAgain takes it twice.
func takeAgain(t testing.TB, s driver.Store, r driver.Request, isNew bool) {
	t.Helper()
	if !isNew {
		take(t, s, r)
		release(t, s, r)
	}
	take(t, s, r)
}

func raised(t *testing.T, s *zkstore.Store, r driver.Request) uint64 {
	st, err := s.Inspect(t.Context(), r.Name)
	if err == nil {
		err = s.RaiseFence(t.Context(), r.Name, r.Token.Text(), st.Fence+1000)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st.Fence + 1000
}

// The node before a waiter's node goes, and the waiter does not have the lock: the node was not
// that of the holder, or the waiter's own node is gone too.
func nodeBeforeIsGone(t *testing.T, srv *server.Server) {
	t.Run("a waiter gives up", func(t *testing.T) {
		t.Parallel()
		s, r := mustOpen(t, srv.Addr()), request("a waiter gives up")
		takeAgain(t, s, r, false)
		first, second := waits(t, srv, r.Name, readsOfNext), waits(t, srv, r.Name, readsOfLater)
		first.cancel()
		second.looksAgain(t)
		second.settle(t)
		release(t, s, r)
		second.granted(t)
	})
	t.Run("two nodes are deleted", func(t *testing.T) {
		t.Parallel()
		s, conn, r := mustOpen(t, srv.Addr()), rawConn(t, srv.Addr()), request("twoNodesAreDeleted")
		takeAgain(t, s, r, false)
		holder := queueOf(t, conn, r.Name)[0]
		w := waits(t, srv, r.Name, readsOfNext)
		var ops []any
		for _, own := range []bool{true, false} {
			for _, node := range queueOf(t, conn, r.Name) {
				if (node != holder) == own {
					ops = append(ops, &zk.DeleteRequest{Path: path.Join("/padlock", r.Name, node), Version: -1})
				}
			}
		}
		if _, err := conn.Multi(ops...); err != nil {
			t.Fatal(err)
		}
		if g := <-w.got; g.TTL != 0 {
			t.Errorf("a waiter without a node has the lock: %+v", g)
		}
	})
}

// An older padlock demotes its hold without changing the data of its node first.
func olderHolder(t *testing.T, srv *server.Server) {
	s, conn, r := mustOpen(t, srv.Addr()), rawConn(t, srv.Addr()), request("olderHolder")
	take(t, s, r)
	release(t, s, r)
	guid := strings.Repeat("0f", 16)
	made, err := conn.Create(fmt.Sprintf("/padlock/%s/_c_%s-x-", r.Name, guid), []byte("{}"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	w := waits(t, srv, r.Name, readsOfNext)
	shared := strings.Replace(made, "-x-", "-s-", 1)
	if _, err = conn.Multi(&zk.DeleteRequest{Path: made, Version: -1},
		&zk.CreateRequest{Path: shared, Data: []byte("{}"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}); err != nil {
		t.Fatal(err)
	}
	w.looksAgain(t)
	if err := conn.Delete(shared, -1); err != nil {
		t.Fatal(err)
	}
	w.granted(t)
}

// The holder raises its fence after the waiter has read the queue, and before the waiter watches
// the holder's node.
func raisedBeforeTheWatch(t *testing.T, srv *server.Server) {
	s, r := mustOpen(t, srv.Addr()), request("raisedBeforeTheWatch")
	takeAgain(t, s, r, false)
	c := openCounted(t, srv)
	fence := uint64(0)
	c.onGet = func() { fence = raised(t, s, r) }
	w := c.waits(t, r.Name, readsOfNext)
	release(t, s, r)
	safety.Rises(t, w.granted(t).Fence, fence)
}
