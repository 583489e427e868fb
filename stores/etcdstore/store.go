package etcdstore

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in etcd. It is safe for concurrent use.
type Store struct {
	cfg        config
	id         string // random; a part of the keys that only this store writes
	conn       *connection
	leases     *leases
	holds      *holds
	groups     *groups
	queueLease *queueLease
	calls      storekit.Calls // and clean-ups that use the connection
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Open opens a store. Unless the option Lazy is given, Open checks that the server answers. ctx
// limits only Open itself. No error contains a password.
func Open(ctx context.Context, server Config, opts ...Option) (*Store, error) {
	cfg := defaults()
	storekit.Apply(&cfg, opts)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if len(server.Endpoints) == 0 {
		return nil, storekit.Invalidf("endpoints: name at least one member, as HOST:PORT")
	}
	server.Endpoints = slices.Clone(server.Endpoints)
	conn := &connection{server: server, limits: limits{calls: make(map[*call]bool)}}
	conn.limits.slow = conn.lookForSilence
	conn.ctx, conn.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s := &Store{cfg: cfg, id: rand.Text()[:16], conn: conn, leases: newLeases(conn, &cfg), holds: newHolds(cfg.clock)}
	s.groups = newGroups(s.leases)
	s.calls.Open()
	s.queueLease = &queueLease{leases: s.leases, calls: &s.calls, turn: make(chan struct{}, 1)}
	if cfg.lazy {
		return s, nil
	}
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare checks that a server answers. It also makes sure that the lease of the stored fences
// exists, because every grant needs this lease; see forFence. A server without free space cannot
// create the lease. prepare ignores that error, because the store can still extend and release
// existing holds.
func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := s.conn.limits.limit(ctx)
	defer cancel()
	if _, err := s.conn.commit(ctx, nil, []*pb.RequestOp{getKeys(s.cfg.prefix+"id", "")}, nil); err != nil {
		return err
	}
	if _, err := s.leases.forFence(ctx); err != nil && !isNoSpace(err) {
		return err
	}
	return nil
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees {
	g := guarantees
	g.Notes = slices.Clone(g.Notes)
	return g
}

// Close implements driver.Store.
func (s *Store) Close() error {
	s.calls.End()
	s.calls.Work.Wait()
	s.conn.close()
	return nil
}

// Location implements driver.Places: each name has keys of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &guarantees)
}

// SamePlace implements driver.Places. It returns true if the same cluster has answered both
// stores, or if both stores were given the address of the same member.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	if id := s.conn.cluster.Load(); id != 0 && id == o.conn.cluster.Load() {
		return true
	}
	return slices.ContainsFunc(s.conn.server.Endpoints, func(e string) bool {
		return slices.ContainsFunc(o.conn.server.Endpoints, func(other string) bool { return address(e) == address(other) })
	})
}

// address returns the HOST:PORT of an endpoint, which may be written as a URL.
func address(endpoint string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(endpoint, scheme); ok {
			endpoint, _, _ = strings.Cut(rest, "/")
		}
	}
	return strings.ToLower(endpoint)
}
