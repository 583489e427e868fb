package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in ZooKeeper. It is safe for concurrent use.
type Store struct {
	cfg      config
	clock    driver.Clock
	host     storeParts // for the sessions
	promises driver.Guarantees
	holds    holds
	fences   mappingCache

	calls storekit.Calls

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
		return nil, storekit.Invalidf("the servers do not allow a session timeout below %v, and %v was asked for; ask for %v, or lower minSessionTimeout of the servers", got, s.cfg.timeout, got)
	}
	return ss, nil
}

func (s *Store) current() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls.Closing.Err() != nil {
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

// runOp runs op, which sends requests, as storekit.Do does. It translates the error of op.
func runOp[T any](ctx context.Context, s *Store, op func() (T, error)) (T, error) {
	return storekit.Do(ctx, &s.calls, func() (T, error) {
		v, err := op()
		return v, failure(err)
	})
}

var errClosed = fmt.Errorf("%w: the store was closed", driver.ErrClosed)

// Close ends the session, and with it all holds. If a server can be reached, the holds end at once.
// Otherwise they end when the session times out.
func (s *Store) Close() error {
	s.mu.Lock()
	s.calls.End()
	live := s.live
	s.mu.Unlock()
	if live != nil {
		live.lose(errClosed)
		live.conn.Close() // lose starts nothing any more
	}
	s.calls.Work.Wait()
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
