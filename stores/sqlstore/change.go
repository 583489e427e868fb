package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// Store keeps locks in a table. It is safe for concurrent use.
type Store struct {
	engine   Engine
	rows     table
	cfg      config
	clock    driver.Clock
	promises driver.Guarantees

	closing context.Context // canceled by Close
	end     context.CancelFunc
	work    sync.WaitGroup // calls that are running
	mu      sync.Mutex     // protects the next field, and must be locked to call work.Add
	closed  bool

	checked atomic.Bool            // check has succeeded
	id      atomic.Pointer[string] // the store's id, as it was last read
	waits   waits                  // the waiters of this process
}

// enter starts a call as begin does. But it does not make sure that the server has been checked.
func (s *Store) enter(ctx context.Context) (bounded context.Context, done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, driver.ErrClosed
	}
	s.work.Add(1)
	bounded, cancel := bound(ctx)
	return bounded, func() { cancel(); s.work.Done() }, nil
}

// Close ends all waits, and returns when every call has ended. It leaves the *sql.DB open, unless
// FromURL opened it. Locks stay held until their leases end.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
	s.rows.kept.closeAll()
	if first && s.cfg.ownsDB {
		return s.rows.db.Close()
	}
	return nil
}

// A result says what an operation decided to write and to return.
type result struct {
	hold  *decide.Hold
	write bool // the operation changed the state
	grant bool // a hold got a new fence, which must also be written to the row of the last grant
	quiet bool // the change matters to no waiter
	err   error
}

// changeRow makes one change to a name. It loads the state of the name and calls op, a function
// that may change this state. Then it saves the state. If another call has written to the name's
// row meanwhile, changeRow starts again. At the end, changeRow wakes the waiters that the change
// concerns.
//
// If op leaves the name free, changeRow reserves it for the waiters whose turn it is. While a
// transaction (CheckTx or LockTx) keeps the name, changeRow reserves nothing, and the first waiter
// takes the name when the transaction has ended. If op grants the name meanwhile, changeRow
// returns errRowLocked.
//
// If op begins a cool-down, changeRow wakes the first waiter of the queue.
func (s *Store) changeRow(ctx context.Context, name string, op func(st *state, now decide.Time) result) (*state, result, decide.Time, error) {
	return s.changeRowFrom(ctx, name, nil, op)
}

// changeRowFrom is like changeRow. If the caller has read the state already, it passes that state,
// and changeRowFrom starts from it. Otherwise it passes nil.
func (s *Store) changeRowFrom(ctx context.Context, name string, read *loadedState, op func(st *state, now decide.Time) result) (*state, result, decide.Time, error) {
	handOver, locked := true, 0
	for try := 0; ; try++ {
		st, now, err := s.read(ctx, name, read)
		read = nil
		if err != nil {
			if judge(err) == again && s.retryPause(ctx, try) {
				continue
			}
			return nil, result{}, 0, failure(ctx, err, false)
		}
		st.trim(now)
		cool := st.Cool
		res := op(st, now)
		if !res.write {
			return st, res, now, res.err
		}
		var handed []reservation
		if handOver {
			handed = st.handOver(now)
			res.grant = res.grant || len(handed) > 0
			handOver = len(handed) > 0
		} else {
			handed = st.leaveFree(now)
		}
		saved, err := s.rows.saveState(ctx, name, st, res.grant)
		switch {
		case errors.Is(err, errRowLocked) && locked < 3 && s.retryPause(ctx, locked+2):
			// Either a transaction or another grant has locked the row. A grant is done in a
			// moment, so try again. The grant may be an earlier statement of this call whose reply
			// was lost.
			locked++
			handOver = true
			continue
		case errors.Is(err, errRowLocked) && handOver:
			handOver = false
			continue
		case errors.Is(err, errRowLocked):
			return st, res, now, err
		case judge(err) == noTable && try < 3:
			if err := s.rows.make(ctx); err != nil {
				return nil, result{}, 0, err
			}
		case err != nil && judge(err) != again:
			s.askToLook(ctx, handed)
			return nil, result{}, 0, failure(ctx, err, true)
		case saved:
			s.tellWaiters(ctx, name, st, append(handed, st.wakeForCoolDown(cool, now)...), res.quiet)
			return st, res, now, res.err
		}
		if !s.retryPause(ctx, try) {
			return nil, result{}, 0, failure(ctx, cmp.Or(err, errBusy), false)
		}
	}
}

func (s *Store) read(ctx context.Context, name string, read *loadedState) (*state, decide.Time, error) {
	if read != nil {
		return read.state, read.now, nil
	}
	return s.rows.loadState(ctx, name)
}

// tellWaiters wakes the waiters that a change concerns:
//
//   - the waiters for which handed has messages
//   - in this process, the first waiter of the queue and the waiters without a place in the queue
//
// If quiet is true and handed is empty, tellWaiters wakes nobody.
func (s *Store) tellWaiters(ctx context.Context, name string, st *state, handed []reservation, quiet bool) {
	s.wakeReserved(ctx, handed)
	if !quiet || len(handed) > 0 {
		s.waits.wakeFirst(name, st.firstToLook())
	}
}

// wakeReserved wakes the waiters for which the name was reserved, and warns the waiter behind each
// of them. It wakes waiters of this process directly, and those of other processes through the
// database.
func (s *Store) wakeReserved(ctx context.Context, handed []reservation) {
	for _, r := range handed {
		var args []any
		if !s.waits.handTo(r.to.token.hash(), r.fence) && r.to.channel != "" {
			args = notification(r.to, r.fence, false)
		}
		if r.next.token != "" && !s.waits.warnNext(r.next.token.hash()) && r.next.channel != "" {
			args = append(args, notification(r.next, 0, true)...)
		}
		s.notify(ctx, args)
	}
}

// askToLook makes the waiters look for which the name may have been reserved. The caller has lost
// the reply to the statement that reserves it, so it does not know.
func (s *Store) askToLook(ctx context.Context, handed []reservation) {
	for i := range handed {
		handed[i].fence = 0
	}
	s.wakeReserved(ctx, handed)
}

// notify sends one or two notifications in one statement. It does so even if the caller's context
// has ended, because the change has already been made. A waiter that misses its notification loses
// its reservation, and looks again only after pushPause.
func (s *Store) notify(ctx context.Context, args []any) {
	text := s.rows.sql.notify[len(args)/2]
	if text == "" {
		return
	}
	if _, err := s.rows.db.ExecContext(ctx, text, args...); err == nil {
		return
	}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driver.MaxReservation)
		defer cancel()
		_, _ = s.rows.db.ExecContext(ctx, text, args...)
	})
}

var errBusy = errors.New("others changed the row of the name again and again")

// retryPause waits a little before the next try, longer each time. It returns false when ctx ends.
func (s *Store) retryPause(ctx context.Context, try int) bool {
	d := time.Duration(rand.Int64N(int64(time.Millisecond)<<min(try, 5))) + 50*time.Microsecond
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// answer returns the Grant of the hold in r.
func (r *result) answer(now decide.Time) driver.Grant {
	if r.hold == nil || r.err != nil {
		return driver.Grant{}
	}
	return driver.Grant{Fence: r.hold.Fence, TTL: r.hold.Until.Sub(now), Shared: r.hold.Shared}
}
