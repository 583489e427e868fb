package sqlstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

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
			if dbms.Judge(err) == dbms.Again && dbms.Pause(ctx, try) {
				continue
			}
			return nil, result{}, 0, dbms.Failure(ctx, err, false)
		}
		st.trim(now)
		cool := st.Cool
		res := op(st, now)
		if !res.write {
			return st, res, now, res.err
		}
		var messages []reservation
		if handOver {
			messages = st.handOver(now)
			res.grant = res.grant || len(messages) > 0
			handOver = len(messages) > 0
		} else {
			messages = st.leaveFree(now)
		}
		saved, err := s.rows.saveState(ctx, name, st, res.grant)
		switch {
		case errors.Is(err, errRowLocked) && locked < 3 && dbms.Pause(ctx, locked+2):
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
		case dbms.Judge(err) == dbms.NoTable && try < 3:
			if err := s.rows.make(ctx); err != nil {
				return nil, result{}, 0, err
			}
		case err != nil && dbms.Judge(err) != dbms.Again:
			if dbms.Judge(err) == dbms.Unknown {
				s.askToLook(ctx, messages)
			}
			return nil, result{}, 0, dbms.Failure(ctx, err, true)
		case saved:
			s.tellWaiters(ctx, name, st, append(messages, st.wakeForCoolDown(cool, now)...), res.quiet)
			return st, res, now, res.err
		}
		if !dbms.Pause(ctx, try) {
			return nil, result{}, 0, dbms.Failure(ctx, cmp.Or(err, errBusy), false)
		}
	}
}

func (s *Store) read(ctx context.Context, name string, read *loadedState) (*state, decide.Time, error) {
	if read != nil {
		return read.state, read.now, nil
	}
	return s.rows.loadState(ctx, name)
}

var errBusy = errors.New("others changed the row of the name again and again")

// answer returns the Grant of the hold in r.
func (r *result) answer(now decide.Time) driver.Grant {
	if r.hold == nil || r.err != nil {
		return driver.Grant{}
	}
	return driver.Grant{Fence: r.hold.Fence, TTL: r.hold.Until.Sub(now), Shared: r.hold.Shared}
}

// maxReads is the maximum number of tries of a statement that only reads.
const maxReads = 20

// reread calls f. If the server refuses the statement of f because of other transactions, reread
// calls f again. With the isolation level REPEATABLE READ or SERIALIZABLE, PostgreSQL may refuse
// even a statement that only reads.
func (s *Store) reread(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || dbms.Judge(err) != dbms.Again || try == maxReads || !dbms.Pause(ctx, try) {
			return err
		}
	}
}
