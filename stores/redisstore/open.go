package redisstore

import (
	"cmp"
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/storekit"
)

// Open connects to the server or servers of c, and checks that their settings are safe for locks.
// ctx bounds the opening only.
//
// Open returns driver.ErrInvalid if settings are wrong or contradict each other, and
// driver.ErrUnavailable if the servers cannot be reached or have settings that lose locks. The
// error says what to do. With Lazy, Open does not connect.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	server, err := redisconn.New(settings(c))
	if err != nil {
		return nil, err
	}
	return open(ctx, server, opts)
}

// settings returns all fields of c.
func settings(c Config) redisconn.Config {
	return redisconn.Config{
		Addrs: c.Addrs, Socket: c.Socket, Cluster: c.Cluster,
		Sentinel:    redisconn.Sentinel{MasterName: c.Sentinel.MasterName, Credentials: c.Sentinel.Credentials},
		Credentials: c.Credentials, DB: c.DB, ClientName: c.ClientName, TLS: c.TLS, Dial: c.Dial,
	}
}

func open(ctx context.Context, server *redisconn.Server, opts []Option) (*Store, error) {
	set := defaults()
	storekit.Apply(&set, opts)
	if err := set.check(); err != nil {
		return nil, err
	}
	s := newStore(set)
	s.server = server
	s.checks.option = s.clientOption()
	if set.lazy {
		return s, nil
	}
	err := s.prepare(ctx, false)
	if err == nil {
		err = s.checks.forbids() // the restart guard only delays grants, so Open ignores it
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(c config) *Store {
	layout := "set"
	if c.strings {
		layout = "string"
	}
	s := &Store{
		config: c, guarantees: c.guarantees(), scripts: bothScripts[layout](),
		keys: keyer{c.prefix, hashSlotTags()}, clock: cmp.Or(c.clock, driver.SystemClock()),
	}
	if s.config.runIDs == nil {
		s.config.runIDs = processRunIDs
	}
	s.keep = time.Minute
	if c.fences {
		s.keep = c.keep
	}
	s.calls.Open()
	s.subscriber.init(s)
	return s
}

// Close makes all callers of Wait return driver.ErrClosed. It waits a few seconds at most for
// clean-ups, and then closes the connections. Holds stay until their leases end.
func (s *Store) Close() error {
	if !s.calls.End() {
		return nil
	}
	s.calls.Work.Wait() // clean-ups end, and each waiter leaves its queue
	s.subscriber.running.Wait()
	s.checks.close()
	return nil
}
