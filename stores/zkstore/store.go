package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Store keeps locks in ZooKeeper. It is safe for concurrent use.
type Store struct {
	cfg      config
	clock    driver.Clock
	host     storeParts // for the sessions
	promises driver.Guarantees
	holds    holds
	fences   mappingCache

	// work counts the operations and clean-ups that are running. The store itself counts as one of
	// them until Close is called.
	work sync.WaitGroup
	// ending protects the next two fields. It must also be locked to call work.Add.
	ending  sync.Mutex
	closed  bool
	drained bool
	closing context.Context
	end     context.CancelFunc

	rootID atomic.Value // the string that identifies the root, once it is known

	mu   sync.Mutex
	live *session // guarded by mu
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

// session waits until the store's session is connected, and returns it. If the session was lost, it
// begins a new one. If it returns an error, no request was sent.
func (s *Store) session(ctx context.Context) (*session, error) {
	ss, err := s.current()
	if err != nil {
		return nil, err
	}
	select {
	case <-ss.online():
	default:
		if err := ss.firstConnect(ctx); err != nil {
			if errors.Is(err, driver.ErrLost) {
				err = fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
			}
			return nil, err
		}
	}
	if got := ss.known.length(); got > s.cfg.timeout && !s.cfg.lenient {
		return nil, invalid("the servers do not allow a session timeout below %v, and %v was asked for; ask for %v, or lower minSessionTimeout of the servers", got, s.cfg.timeout, got)
	}
	return ss, nil
}

func (s *Store) current() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return nil, driver.ErrClosed
	}
	if s.live != nil && s.live.alive() {
		return s.live, nil
	}
	s.fences.forget() // ZooKeeper's data may have been lost
	ss, err := newSession(s.host)
	if err == nil {
		s.live = ss
	}
	return ss, err
}

// runOp calls op, which sends requests, in a goroutine of its own, and waits for it. If ctx ends or
// the servers are silent for too long, runOp returns an error. The goroutine then continues,
// because a request that was sent cannot be taken back.
func runOp[T any](ctx context.Context, s *Store, op func() (T, error)) (T, error) {
	var zero T
	if err := s.beginCall(ctx); err != nil {
		return zero, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer s.work.Done()
		v, err := op()
		done <- result{v, failure(err)}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, s.afterClose(r.err)
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %w", driver.ErrUncertain, ctx.Err())
	case <-timer.C:
		return zero, fmt.Errorf("%w: the servers are silent", driver.ErrUncertain)
	}
}

// beginCall registers an operation, so that Close waits for it. The caller must call s.work.Done
// when the operation ends. If the store is closed or ctx has ended, beginCall registers nothing and
// returns an error.
func (s *Store) beginCall(ctx context.Context) error {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.closed {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.work.Add(1)
	return nil
}

// spawn runs f in the background, and Close waits for f to end. Once Close has ended the session,
// spawn does nothing.
func (s *Store) spawn(f func()) {
	s.ending.Lock()
	defer s.ending.Unlock()
	if !s.drained {
		s.work.Go(f)
	}
}

// afterClose returns the error for the caller of an operation that failed with err. If Close has
// been called meanwhile, the returned error wraps ErrClosed.
func (s *Store) afterClose(err error) error {
	if err != nil && s.closing.Err() != nil && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	return err
}

var errClosed = fmt.Errorf("%w: the store was closed", driver.ErrClosed)

// Close ends the session, and with it all holds. If a server can be reached, the holds end at once.
// Otherwise they end when the session times out.
func (s *Store) Close() error {
	s.ending.Lock()
	first := !s.closed
	s.closed = true
	s.ending.Unlock()
	if first {
		s.mu.Lock()
		s.end()
		live := s.live
		s.mu.Unlock()
		if live != nil {
			live.lose(errClosed)
		}
		s.ending.Lock()
		s.drained = true
		s.ending.Unlock()
		s.work.Done()
	}
	s.work.Wait()
	return nil
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.promises }

// StoreID implements driver.Places: the tree of nodes has no id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// Location implements driver.Places: each name has a node of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.promises)
}

// SamePlace implements driver.Places. It returns true if both stores have the same root node.
// It also returns true if both were given the address of the same server.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	if mine := s.rootID.Load(); mine != nil && mine == o.rootID.Load() {
		return true
	}
	return slices.ContainsFunc(s.cfg.servers, func(server string) bool {
		return slices.Contains(o.cfg.servers, server)
	})
}
