package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
)

// table keeps the locks: one row for each name. All stores that are opened on it share it.
type table struct {
	mu   sync.Mutex // stands for a transaction
	rows map[string]*row
}

// row is never deleted, since the next fence must be greater than all before.
type row struct {
	token        string // of the hold; it may have run out
	holder       driver.Holder
	fence        uint64
	since, until time.Time
}

// tableStore is a store with the five methods and nothing else: exclusive locks with leases and
// fences. It has no queue, so waiters poll.
type tableStore struct {
	*table
	closed atomic.Bool
}

// Promises that are not made here are not tested. The zero value promises nothing.
var guarantees = driver.Guarantees{
	Store: "table",
	Lease: true,
	Fence: driver.FenceDurable,
	Notes: []string{"This store is an example."},
}

func (s *tableStore) Guarantees() driver.Guarantees { return guarantees }

func (s *tableStore) Close() error {
	s.closed.Store(true)
	return nil
}

// begin locks the table, unless the store is closed or ctx has ended.
func (s *tableStore) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return driver.ErrClosed
	}
	s.mu.Lock()
	return nil
}

func (s *tableStore) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	if r.Shared {
		return driver.Grant{}, fmt.Errorf("shared locks: %w", errors.ErrUnsupported)
	}
	if err := s.begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.mu.Unlock()
	now, old := time.Now(), s.rows[r.Name]
	if old == nil {
		old = &row{}
	}
	held := old.until.After(now)
	switch {
	case held && old.token == r.Token.Text(): // the first reply was lost
		return old.extend(now, r.TTL), nil
	case r.Replaces.Text() != "" && !(held && old.token == r.Replaces.Text()):
		return driver.Grant{}, driver.ErrLost
	case r.Replaces.Text() == "" && held:
		return driver.Grant{}, old.heldError()
	}
	fence := max(old.fence+1, r.FenceAbove+1, uint64(now.UnixMicro()))
	if fence >= driver.MaxFence {
		return driver.Grant{}, driver.ErrFencesUsedUp
	}
	taken := &row{token: r.Token.Text(), holder: r.Holder, fence: fence, since: now}
	s.rows[r.Name] = taken
	return taken.extend(now, r.TTL), nil
}

func (s *tableStore) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckHold(name, token, &guarantees); err != nil {
		return driver.Grant{}, err
	}
	if ttl != 0 {
		if err := driver.CheckTTL("TTL", ttl, &guarantees); err != nil {
			return driver.Grant{}, err
		}
	}
	if err := s.begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.mu.Unlock()
	now, hold := time.Now(), s.rows[name]
	switch {
	case hold == nil || hold.token != token:
		return driver.Grant{}, driver.ErrLost
	case !hold.until.After(now): // and nobody took the name since
		return driver.Grant{}, driver.ErrExpired
	}
	return hold.extend(now, ttl), nil
}

func (s *tableStore) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckHold(name, token, &guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	if err := driver.CheckKeep("cool-down", keep, &guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	if err := s.begin(ctx); err != nil {
		return driver.OutcomeGone, err
	}
	defer s.mu.Unlock()
	hold := s.rows[name]
	if hold == nil || hold.token != token {
		return driver.OutcomeGone, nil
	}
	held := hold.until.After(time.Now())
	hold.token, hold.until = "", time.Time{}
	if !held {
		return driver.OutcomeExpired, nil
	}
	return driver.OutcomeReleased, nil
}

// extend never shortens a lease. The Grant counts from before the request.
func (h *row) extend(now time.Time, ttl time.Duration) driver.Grant {
	if end := now.Add(ttl); end.After(h.until) {
		h.until = end
	}
	return driver.Grant{Fence: h.fence, TTL: h.until.Sub(now)}
}

func (h *row) heldError() error {
	hold := driver.Hold{Holder: h.holder, Since: h.since, Until: h.until}
	if h.holder.Plan > 0 {
		hold.PlannedEnd = h.since.Add(h.holder.Plan)
	}
	return &driver.HeldError{Holds: []driver.Hold{hold}, Until: h.until, Waiters: -1}
}

// This is a whole store and its test. In a test function, call drivertest.Run(t, harness) instead
// of Check.
func Example_store() {
	shared := &table{rows: make(map[string]*row)}
	harness := drivertest.Harness{
		Open: func(context.Context) (driver.Store, error) {
			return &tableStore{table: shared}, nil
		},
	}
	broken := drivertest.Check(harness)
	for _, failure := range broken {
		fmt.Println(failure)
	}
	fmt.Println("rules that the store breaks:", len(broken))
	// Output: rules that the store breaks: 0
}
