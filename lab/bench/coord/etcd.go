//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// etcd is a server, the only member of its cluster, which starts when it is asked for its address.
// It does not wait for its disk.
type etcd struct{ addr func() (string, error) }

const (
	bare  = "Txn + Delete"
	mutex = "concurrency.Mutex"
	hop   = "etcd-watch (no lock)"
	ours  = "etcdstore"
)

func (e *etcd) peers() []trial.Peer {
	return []trial.Peer{
		{Name: bare, In: pairs, Open: e.client(bareKey)},
		{Name: hop, In: drains, Open: e.client(watches)},
		{Name: ours, In: pairs, Open: trial.Opens(trial.Driver, e.store)},
		{Name: mutex, In: pairs | drains | crowds, Open: e.client(mutexes)},
		{Name: ours, In: drains | crowds, Open: trial.Opens(trial.Face, e.store)},
	}
}

// experiments returns those of etcd.
func (e *etcd) experiments(p *plan) []*measure.Experiment {
	s := service{name: "etcd", plan: p, peers: e.peers(), hop: hop, queued: time.Duration(p.waiters) * 30 * time.Millisecond}
	return []*measure.Experiment{
		s.pairs(1, bare, "p50 us", measure.Target{Row: ours, Base: bare, AtMost: 1.15},
			measure.Target{Row: ours, Base: mutex, AtMost: 1}),
		s.drains("hop us", measure.Target{Row: ours, Base: hop, AtMost: 1.6}, measure.Target{Row: ours, Base: mutex, AtMost: 1}),
		s.crowds(mutex, measure.Target{Row: ours, Base: mutex, AtMost: 0.7}),
	}
}

func (e *etcd) store() (*etcdstore.Store, error) {
	addr, err := e.addr()
	if err != nil {
		return nil, err
	}
	return etcdstore.Open(context.Background(), etcdstore.Config{Endpoints: []string{addr}})
}

// client connects etcd's own client for a peer.
func (e *etcd) client(open func(*clientv3.Client) *trial.Client) func(*trial.Counter) (*trial.Client, error) {
	return func(*trial.Counter) (*trial.Client, error) {
		addr, err := e.addr()
		if err != nil {
			return nil, err
		}
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		return open(c), nil
	}
}

// bareKey is the least work that any lock in etcd needs: a transaction that puts a key if the key
// is absent, and a request that deletes the key.
func bareKey(c *clientv3.Client) *trial.Client {
	var lease clientv3.LeaseID
	return trial.NewClient(c.Close, func(ctx context.Context, key string) (func() error, error) {
		if lease == 0 {
			granted, err := c.Grant(ctx, 60)
			if err != nil {
				return nil, err
			}
			lease = granted.ID
		}
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "holder", clientv3.WithLease(lease))).Else(clientv3.OpGet(key)).Commit()
		if err == nil && !r.Succeeded {
			err = errors.New("the name is held")
		}
		return func() error { _, err := c.Delete(ctx, key); return err }, err
	})
}

// mutexes are the locks of etcd's client. Each has a session of its own, because callers with the
// same session have the same lock. The n-th locks of all names share one.
func mutexes(c *clientv3.Client) *trial.Client {
	var sessions []*concurrency.Session
	used := map[string]int{}
	return &trial.Client{
		Lock: func(name string) (trial.Lock, error) {
			n := used[name]
			used[name]++
			if n == len(sessions) {
				s, err := concurrency.NewSession(c)
				if err != nil {
					return nil, err
				}
				sessions = append(sessions, s)
			}
			m := concurrency.NewMutex(sessions[n], name)
			return func(ctx context.Context) (func() error, error) {
				return func() error { return m.Unlock(ctx) }, m.Lock(ctx)
			}, nil
		},
		Close: func() error {
			return errors.Join(trial.Together(len(sessions), func(i int) error { return sessions[i].Close() }), c.Close())
		},
	}
}

// watches measure how long a message takes from one client to the next. No lock is used: each
// client watches a key, and then puts the key that the next client watches.
func watches(first *clientv3.Client) *trial.Client {
	stem, n := trial.NewName(), 0
	clients := []*clientv3.Client{first}
	return &trial.Client{
		Lock: func(string) (trial.Lock, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: first.Endpoints(), Logger: zap.NewNop()})
			if err != nil {
				return nil, err
			}
			clients = append(clients, c)
			mine, next := fmt.Sprint(stem, "/", n), fmt.Sprint(stem, "/", n+1)
			events := c.Watch(context.Background(), mine, clientv3.WithCreatedNotify())
			<-events // the watch begins
			if n++; n == 1 {
				_, err = c.Put(context.Background(), mine, "go")
			}
			return func(ctx context.Context) (func() error, error) {
				select {
				case r := <-events:
					return func() error { _, err := c.Put(ctx, next, "go"); return err }, r.Err()
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}, err
		},
		Close: func() error {
			return trial.Together(len(clients), func(i int) error { return clients[i].Close() })
		},
	}
}
