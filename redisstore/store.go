package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Store keeps locks in Redis. It is safe for concurrent use.
type Store struct {
	config     config
	server     Config
	guarantees driver.Guarantees
	scripts    *scripts
	keys       keyer
	keepArg    string
	clock      driver.Clock
	gate       gate
	subscriber subscriber
	handed     handed
	formats    formats

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	jobs sync.WaitGroup // clean-ups
	done atomic.Bool
	mu   sync.Mutex // orders Close and the start of jobs
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Passer
	driver.Converter
	driver.Inspector
	driver.Lister
	driver.Breaker
	driver.FenceRaiser
	driver.Reporter
} = (*Store)(nil)

// Open connects to the server or servers of c and checks whether they can be
// trusted with locks. ctx bounds the opening only.
//
// It returns driver.ErrInvalid if settings are wrong or contradict each other, and
// driver.ErrUnavailable if the servers cannot be reached or cannot be trusted;
// the error says what to do. With Lazy it does not connect.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	set := defaults()
	for _, opt := range opts {
		opt(&set)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := set.check(); err != nil {
		return nil, err
	}
	s := newStore(set)
	s.server = c.copied()
	s.gate.option = s.clientOption()
	if set.lazy {
		return s, nil
	}
	err := s.prepare(ctx, false)
	if err == nil {
		err = s.gate.forbids() // a restart is told to whoever asks for a lock
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
		config: c, guarantees: c.guarantees(), scripts: bothScripts[layout],
		keys: keyer{c.prefix, slotTags()}, clock: c.clock,
	}
	if s.clock == nil {
		s.clock = driver.SystemClock()
	}
	if s.config.runIDs == nil {
		s.config.runIDs = ofProcess
	}
	s.formats.keep = time.Minute
	if c.fences {
		s.formats.keep = c.keep
	}
	s.keepArg = millis(s.formats.keep)
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.subscriber.init(s)
	s.handed.m = map[string]struct{}{}
	return s
}

func digit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

func newID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

// String names the store; nothing in it is secret.
func (s *Store) String() string { return "redis" }

func (s *Store) closed() bool { return s.done.Load() }

// enter refuses a call that comes after Close or with a dead context.
func (s *Store) enter(ctx context.Context) error {
	if s.done.Load() {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// background runs a clean-up that Close waits for. It reports false if it
// came too late.
func (s *Store) background(job func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done.Load() {
		return false
	}
	s.jobs.Go(job)
	return true
}

// Close ends all waiting, waits for clean-ups, a few seconds at the most, and
// closes the connections. Holds stay until their leases end.
func (s *Store) Close() error {
	s.mu.Lock()
	first := s.done.CompareAndSwap(false, true)
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.stop(driver.ErrClosed)
	s.subscriber.waits.Wait() // each leaves its queue
	s.jobs.Wait()
	s.subscriber.close()
	s.gate.close()
	return nil
}

// forget releases what token may hold, on a context of its own.
func (s *Store) forget(name, token string) {
	ctx, cancel := context.WithTimeout(context.Background(), driver.MaxSilence/2)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		_, err := s.release(ctx, name, token, 0)
		if err == nil || errors.Is(err, driver.ErrClosed) || s.sleep(ctx, pause) != nil {
			return
		}
	}
}

func (s *Store) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
