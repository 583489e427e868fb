package redisstore

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/redisconn"
)

// Open connects to the server or servers of c, and checks that their settings are safe for locks.
// ctx bounds the opening only.
//
// Open returns driver.ErrInvalid if settings are wrong or contradict each other, and
// driver.ErrUnavailable if the servers cannot be reached or have settings that lose locks. The
// error says what to do. With Lazy, Open does not connect.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	server, err := redisconn.New(c)
	if err != nil {
		return nil, err
	}
	return open(ctx, server, opts)
}

func open(ctx context.Context, server *redisconn.Server, opts []Option) (*Store, error) {
	set := defaults()
	for _, opt := range opts {
		if opt != nil {
			opt(&set)
		}
	}
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
		keys: keyer{c.prefix, hashSlotTags()}, clock: c.clock,
	}
	if s.clock == nil {
		s.clock = driver.SystemClock()
	}
	if s.config.runIDs == nil {
		s.config.runIDs = processRunIDs
	}
	s.keep = time.Minute
	if c.fences {
		s.keep = c.keep
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.subscriber.init(s)
	return s
}

// Close makes all callers of Wait return driver.ErrClosed. It waits a few seconds at most for
// clean-ups, and then closes the connections. Holds stay until their leases end.
func (s *Store) Close() error {
	s.mu.Lock()
	first := s.done.CompareAndSwap(false, true)
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.stop(driver.ErrClosed)
	s.subscriber.waits.Wait() // each waiter leaves its queue
	s.jobs.Wait()
	s.subscriber.running.Wait()
	s.checks.close()
	return nil
}
