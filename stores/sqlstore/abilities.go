package sqlstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

var _ interface {
	driver.Store
	driver.Waiter
	fast.Passer
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	fast.BatchExtender
	fast.Recorder
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Convert implements driver.Converter. While a transaction has checked an exclusive lock, its hold
// stays exclusive, because a reader that joins it would get the name before the transaction ends.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.promises); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	st, res, now, err := s.changeRow(ctx, r.Name, func(st *state, now decide.Time) result {
		before := st.Fence
		h := st.Live(r.Token.Text(), at(now))
		demotes := h != nil && !h.Shared && r.Shared
		h, write, err := st.convert(&r, now)
		return result{hold: h, write: write, grant: demotes || st.Fence != before, err: err}
	})
	if err == errRowLocked {
		return driver.Grant{}, st.lockedByTx()
	}
	return res.answer(now), err
}

// Pass implements fast.Passer.
func (s *Store) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	if err := cmp.Or(driver.CheckToken(token), next.Validate(&s.promises)); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if err := checkNext(token, &next); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	defer done()
	if g, ok, err := s.rows.passHold(ctx, token, &next); ok || err != nil {
		return released(ok), g, err
	}
	return s.passByState(ctx, token, next)
}

// checkNext checks the request that gets the name from Pass. The parameter token is the token of
// the present hold. The request must be exclusive and without Replaces, and must have a different
// token.
func checkNext(token string, next *driver.Request) error {
	if next.Shared || next.Replaces.Text() != "" || next.Token.Text() == token {
		return fmt.Errorf("%w: request: only an exclusive hold of its own can follow", driver.ErrInvalid)
	}
	return nil
}

// passByState does what Pass does, in the cases that one statement cannot decide. It loads and
// saves the state.
func (s *Store) passByState(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	out, leaveOut := driver.OutcomeGone, false
	pass := func(st *state, now decide.Time) result {
		if h := st.Live(next.Token.Text(), at(now)); h != nil && !h.Reserved {
			out = driver.OutcomeReleased
			h, err := st.acquire(&next, now)
			return result{hold: h, write: true, err: err}
		}
		h := st.Live(token, at(now))
		follows := h != nil && !h.Shared && !leaveOut
		out = st.release(token, 0, now)
		if !follows {
			return result{write: true}
		}
		g, err := st.acquire(&next, now)
		return result{hold: g, write: true, grant: err == nil}
	}
	_, res, now, err := s.changeRow(ctx, next.Name, pass)
	if err == errRowLocked { // a transaction keeps the name: release the hold without handing over
		leaveOut = true
		_, res, now, err = s.changeRow(ctx, next.Name, pass)
	}
	if err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	return out, res.answer(now), nil
}

func released(yes bool) driver.Outcome {
	if yes {
		return driver.OutcomeReleased
	}
	return driver.OutcomeGone
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := cmp.Or(driver.CheckHold(name, token, &s.promises), driver.CheckFence(fence)); err != nil {
		return err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return err
	}
	defer done()
	_, _, _, err = s.changeRow(ctx, name, func(st *state, now decide.Time) result {
		changed, err := st.RaiseFence(token, fence, at(now))
		return result{write: changed, grant: changed, err: err}
	})
	if err == errRowLocked {
		return fmt.Errorf("%w: a transaction has locked the row of the last grant", driver.ErrUnavailable)
	}
	return err
}

// Break implements driver.Admin.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return 0, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return 0, err
	}
	defer done()
	var fence uint64
	_, _, _, err = s.changeRow(ctx, name, func(st *state, now decide.Time) result {
		var err error
		fence, err = st.Break(seenFence, at(now))
		return result{write: err == nil, err: err}
	})
	return fence, err
}

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return driver.State{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.State{}, err
	}
	defer done()
	var out driver.State
	known := false // the name has a row
	err = s.reread(ctx, func() error {
		st, now, err := s.rows.peekState(ctx, name)
		if err == nil {
			out, known = st.report(name, now), st.version > 0
		}
		return err
	})
	if err == nil && len(out.Holds) == 0 && known {
		out.Holds = s.keptHold(ctx, name)
	}
	return out, dbms.Failure(ctx, err, false)
}

// List implements driver.Admin.
func (s *Store) List(ctx context.Context, prefix string) (out []driver.State, err error) {
	for from, to := rangeOf(prefix); from != nil && err == nil; {
		var part []driver.State
		part, from, err = s.listPart(ctx, from, to)
		out = append(out, part...)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// listPart reads the rows of the names from one to another, without the name "to", in the time of one
// call. If there are more than one call may read, it returns where to go on.
func (s *Store) listPart(ctx context.Context, from, to []byte) (out []driver.State, next []byte, err error) {
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	err = s.reread(ctx, func() error {
		out, next, err = s.list(ctx, from, to)
		return err
	})
	return out, next, dbms.Failure(ctx, err, false)
}

func (s *Store) list(ctx context.Context, from, to []byte) (out []driver.State, next []byte, err error) {
	rows, err := s.rows.query(ctx, s.rows.sql.list, from, to, []byte{})
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	read, last := 0, ""
	for rows.Next() {
		name, st, now, err := scan(rows)
		if err != nil {
			return nil, nil, err
		}
		read, last = read+1, name
		if state := st.report(name, now); !st.idle(now) {
			out = append(out, state)
		}
	}
	if read == listMost {
		next = []byte(last + "\x00") // the next name of all
	}
	return out, next, rows.Err()
}

// listMost is how many rows one statement of List reads.
const listMost = 10_000

// StoreID implements driver.Places. The id is kept in the table of padlock's own settings.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return "", err
	}
	defer done()
	return s.readID(ctx)
}

// Location implements driver.Places: each name has a row of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.promises)
}

// SamePlace implements driver.Places. The store cannot tell: a server has many addresses.
func (s *Store) SamePlace(driver.Store) bool { return false }

// Prune removes the rows of names that have not been used for a long time. The option [Keep] says
// for how long. Prune returns how many rows it removed. If a name is used again after its row was
// removed, its next fence is still higher than its last one. Prune also removes records that are
// older than [fast.RecordKeep], but does not count them. The store also prunes by itself, in the
// background.
func (s *Store) Prune(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	_, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := s.sweep(ctx, 0)
	if problem := s.pruneRecords(ctx); err == nil && dbms.Judge(problem) != dbms.NoTable {
		err = problem
	}
	return n, dbms.Failure(ctx, err, false)
}
