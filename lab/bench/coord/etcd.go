//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/host"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// etcd is a running etcd server, the only member of its cluster. The server does not wait for its
// disk.
type etcd struct {
	addr  string
	names atomic.Int64
}

func (e *etcd) start(h *host.Host) error {
	return h.Try(func(t testing.TB) { e.addr = server.Etcd(t, server.EtcdOptions{}).Addr() })
}

func (*etcd) close() {}

func (e *etcd) client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{e.addr}, Logger: zap.NewNop()})
}

func (e *etcd) store() (*etcdstore.Store, error) {
	return etcdstore.Open(context.Background(), etcdstore.Config{Endpoints: []string{e.addr}})
}

func (e *etcd) name(stem string) string { return fmt.Sprintf("%s%d", stem, e.names.Add(1)) }

const (
	etcdBare  = "Txn + Delete"
	etcdMutex = "concurrency.Mutex"
	etcdHop   = "etcd-watch (no lock)"
	etcdOurs  = "etcdstore"
	etcdAged  = "etcdstore, after many locks of the name"
)

func (e *etcd) experiments(p *plan) []*measure.Experiment {
	wait := time.Duration(p.waiters) * 30 * time.Millisecond
	row := func(name string, run func() (measure.Figures, error)) measure.Row {
		return measure.Row{Name: name, Run: run}
	}
	return []*measure.Experiment{
		{
			Name:    "pair, etcd",
			Columns: []measure.Column{{Name: "us", Format: "%.1f"}, {Name: "p50 us", Format: "%.1f"}},
			Rows: []measure.Row{
				row(etcdBare, func() (measure.Figures, error) { return e.bare(p.pairs) }),
				row(etcdOurs, func() (measure.Figures, error) { return e.ours(0, p.pairs) }),
				row(etcdAged, func() (measure.Figures, error) { return e.ours(p.before, p.pairs) }),
				row(etcdMutex, func() (measure.Figures, error) { return e.mutex(p.pairs) }),
			},
			Base: etcdBare, Ratio: "p50 us",
			Targets: []measure.Target{
				{Row: etcdOurs, Column: "p50 us", Base: etcdBare, AtMost: 1.15},
				{Row: etcdOurs, Column: "p50 us", Base: etcdMutex, AtMost: 1},
				{Row: etcdAged, Column: "p50 us", Base: etcdOurs, AtMost: 1.1},
			},
		},
		{
			Name:    fmt.Sprintf("drain, etcd, %d waiters", p.waiters),
			Columns: []measure.Column{{Name: "total ms", Format: "%.1f"}, {Name: "hop us", Format: "%.0f"}},
			Rows: []measure.Row{
				row(etcdHop, func() (measure.Figures, error) { return e.hops(p.waiters, wait) }),
				row(etcdOurs, func() (measure.Figures, error) { return e.drainOurs(p.waiters, wait) }),
				row(etcdMutex, func() (measure.Figures, error) { return e.drainMutex(p.waiters, wait) }),
			},
			Base: etcdHop, Ratio: "hop us",
			Targets: []measure.Target{{Row: etcdOurs, Column: "hop us", Base: etcdHop, AtMost: 1.6}},
		},
		e.crowds(p),
		{
			Name:    fmt.Sprintf("idle, etcd, %d holds of 30 s", p.holds),
			Columns: []measure.Column{{Name: "requests/s per 1,000", Format: "%.2f"}, {Name: "lost", Format: "%.0f"}},
			Rows:    []measure.Row{row(etcdOurs, func() (measure.Figures, error) { return e.idle(p) })},
			Targets: []measure.Target{
				{Row: etcdOurs, Column: "requests/s per 1,000", AtMost: 2},
				{Row: etcdOurs, Column: "lost", AtMost: 0},
			},
		},
	}
}

// bare measures the least work that any lock in etcd needs: a transaction that puts a key if the
// key is absent, and a request that deletes the key.
func (e *etcd) bare(n int) (measure.Figures, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	lease, err := c.Grant(context.Background(), 60)
	if err != nil {
		return nil, err
	}
	key := e.name("bare")
	return pairs(n, func(ctx context.Context) error {
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "holder", clientv3.WithLease(lease.ID))).Else(clientv3.OpGet(key)).Commit()
		if err == nil && !r.Succeeded {
			err = fmt.Errorf("the name is held")
		}
		if err == nil {
			_, err = c.Delete(ctx, key)
		}
		return err
	})
}

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: token, TTL: 30 * time.Second, Holder: driver.Holder{Host: "host.example", PID: 4711}}
}

// ours measures etcdstore. It takes and releases one name again and again, with a new token each
// time, as padlock does. Before the measurement, it takes and releases the name as often as
// olderLocks says. The history of the server is not compacted during all this time.
func (e *etcd) ours(olderLocks, n int) (measure.Figures, error) {
	s, err := e.store()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	name, tokens := e.name("pair"), 0
	once := func(ctx context.Context) error {
		tokens++
		token := fmt.Sprint("token ", tokens)
		if _, err := s.Acquire(ctx, request(name, token)); err != nil {
			return err
		}
		_, err := s.Release(ctx, name, token, 0)
		return err
	}
	for range olderLocks {
		if err := once(context.Background()); err != nil {
			return nil, err
		}
	}
	return pairs(n, once)
}

func (e *etcd) mutex(n int) (measure.Figures, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	session, err := concurrency.NewSession(c)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	m := concurrency.NewMutex(session, e.name("mutex"))
	return pairs(n, func(ctx context.Context) error {
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
	})
}

// hops measures how long a message takes from one client to the next. No lock is used: each client
// watches a key, and then puts the key that the next client watches.
func (e *etcd) hops(n int, settle time.Duration) (measure.Figures, error) {
	var all []waiter
	stem := e.name("hop")
	key := func(i int) string { return fmt.Sprintf("%s/%d", stem, i) }
	var first *clientv3.Client
	for i := range n {
		c, err := e.client()
		if err != nil {
			return nil, err
		}
		defer c.Close()
		first = c
		all = append(all, waiter{
			wait: func(ctx context.Context) error {
				for r := range c.Watch(ctx, key(i)) {
					return r.Err()
				}
				return ctx.Err()
			},
			pass: func(ctx context.Context) error { _, err := c.Put(ctx, key(i+1), "go"); return err },
		})
	}
	return drain(func(ctx context.Context) error { _, err := first.Put(ctx, key(0), "go"); return err }, all, settle)
}

func (e *etcd) drainOurs(n int, settle time.Duration) (measure.Figures, error) {
	name := e.name("drain")
	holder, err := e.store()
	if err != nil {
		return nil, err
	}
	defer holder.Close()
	if _, err := holder.Acquire(context.Background(), request(name, "first")); err != nil {
		return nil, err
	}
	var all []waiter
	for i := range n {
		s, err := e.store()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		r := request(name, fmt.Sprintf("token %d", i))
		all = append(all, waiter{
			wait: func(ctx context.Context) error {
				g, err := s.Wait(ctx, r, true)
				if err == nil && g.TTL == 0 {
					err = fmt.Errorf("a waiter was woken without the lock")
				}
				return err
			},
			pass: func(ctx context.Context) error { _, err := s.Release(ctx, name, r.Token, 0); return err },
		})
	}
	return drain(func(ctx context.Context) error { _, err := holder.Release(ctx, name, "first", 0); return err }, all, settle)
}

func (e *etcd) drainMutex(n int, settle time.Duration) (measure.Figures, error) {
	name := e.name("mutex")
	var locks []*concurrency.Mutex
	for range n + 1 {
		c, err := e.client()
		if err != nil {
			return nil, err
		}
		defer c.Close()
		session, err := concurrency.NewSession(c)
		if err != nil {
			return nil, err
		}
		defer session.Close()
		locks = append(locks, concurrency.NewMutex(session, name))
	}
	if err := locks[0].Lock(context.Background()); err != nil {
		return nil, err
	}
	var all []waiter
	for _, m := range locks[1:] {
		all = append(all, waiter{wait: m.Lock, pass: m.Unlock})
	}
	return drain(locks[0].Unlock, all, settle)
}

// idle holds many locks, and counts the requests that the client sends while no lock is taken or
// released. etcdstore renews locks in groups, so the count begins when every lock is in a group.
func (e *etcd) idle(p *plan) (measure.Figures, error) {
	s, err := e.store()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	locker := padlock.New(s)
	ctx := context.Background()
	defer locker.Close(ctx)
	var locks []*padlock.Lock
	for range p.holds {
		l, err := locker.Acquire(ctx, e.name("idle"))
		if err != nil {
			return nil, err
		}
		locks = append(locks, l)
	}
	time.Sleep(p.settle) // until every lock belongs to a group of locks that are renewed together
	before, err := e.requests()
	if err != nil {
		return nil, err
	}
	time.Sleep(p.idle)
	after, err := e.requests()
	if err != nil {
		return nil, err
	}
	lost := 0
	for _, l := range locks {
		if l.Remaining() == 0 {
			lost++
		}
	}
	return measure.Figures{"requests/s per 1,000": (after - before) / p.idle.Seconds() / float64(p.holds) * 1000, "lost": float64(lost)}, nil
}

// requests returns how many messages of clients the server has received. The server also counts the
// end of each stream as a message; requests subtracts those ends.
func (e *etcd) requests() (sum float64, err error) {
	reply, err := http.Get("http://" + e.addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		sign := 0.0
		switch {
		case ok && strings.HasPrefix(name, "grpc_server_msg_received_total{"):
			sign = 1
		case ok && strings.HasPrefix(name, "grpc_server_handled_total{") && strings.Contains(name, `"bidi_stream"`):
			sign = -1
		default:
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += sign * n
	}
	return sum, lines.Err()
}

// crowdTrials is how often a crowd takes its lock in a trial.
const crowdTrials = 7

// crowds measures many goroutines of one process that want the same name.
func (e *etcd) crowds(p *plan) *measure.Experiment {
	return &measure.Experiment{
		Name:    fmt.Sprintf("crowd, etcd, %d goroutines of one process", p.waiters),
		Columns: []measure.Column{{Name: "total ms", Format: "%.1f"}},
		Rows: []measure.Row{
			{Name: etcdMutex, Run: func() (measure.Figures, error) { return e.crowdMutex(p.waiters) }},
			{Name: etcdOurs, Run: func() (measure.Figures, error) { return e.crowdOurs(p.waiters) }},
		},
		Base: etcdMutex, Ratio: "total ms",
		Targets: []measure.Target{{Row: etcdOurs, Column: "total ms", Base: etcdMutex, AtMost: 0.7}},
	}
}

func (e *etcd) crowdOurs(n int) (measure.Figures, error) {
	s, err := e.store()
	if err != nil {
		return nil, err
	}
	locker := padlock.New(s)
	defer locker.Close(context.Background())
	trial := func(name string) (measure.Figures, error) {
		return crowd(n, func(ctx context.Context, _ int) error {
			l, err := locker.Acquire(ctx, name)
			if err != nil {
				return err
			}
			return l.Release()
		})
	}
	if _, err := trial(e.name("warm")); err != nil {
		return nil, err
	}
	return medianOf(crowdTrials, func() (measure.Figures, error) { return trial(e.name("crowd")) })
}

// crowdMutex gives each goroutine a session of its own, because callers with the same session have
// the same lock. All sessions have the same client.
func (e *etcd) crowdMutex(n int) (measure.Figures, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var sessions []*concurrency.Session
	for range n {
		s, err := concurrency.NewSession(c)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		sessions = append(sessions, s)
	}
	trial := func() (measure.Figures, error) {
		name := e.name("crowd mutex")
		return crowd(n, func(ctx context.Context, i int) error {
			m := concurrency.NewMutex(sessions[i], name)
			if err := m.Lock(ctx); err != nil {
				return err
			}
			return m.Unlock(ctx)
		})
	}
	if _, err := trial(); err != nil {
		return nil, err
	}
	return medianOf(crowdTrials, trial)
}
