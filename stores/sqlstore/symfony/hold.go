package symfony

import (
	"cmp"
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// seconds returns the number that a statement adds to the server's clock to get the end of a lease
// of ttl. The statement reads the clock in whole seconds, rounded down. The number is large enough
// for every version of PHP to keep the lease for at least ttl.
func (s *Store) seconds(ttl time.Duration) int64 {
	n := int64((ttl+time.Second-1)/time.Second) + 1
	if dialects[s.engine].early > 0 {
		n++
	}
	return n
}

// grant makes the Grant after a call has written a row with a lease of ttl. The Grant ends as soon
// as any program may take the name over.
//
// The row may have been read long after it was written. The Grant still has at least the whole ttl,
// because the caller counts the Grant's TTL from a time before the call.
func (s *Store) grant(r *row, ttl time.Duration) driver.Grant {
	if r.endless {
		return driver.Grant{TTL: cmp.Or(ttl, time.Second)}
	}
	return driver.Grant{TTL: max((r.end - dialects[s.engine].early).timeUntil(r.now), ttl, time.Microsecond)}
}

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.validate(&r); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	id, token := s.layout.storedID(s.engine, r.Name), storedToken(r.Token.Text())
	if r.Replaces.Text() != "" {
		return s.replace(ctx, id, token, &r)
	}
	if err := s.here.leaveGap(ctx, id); err != nil {
		return driver.Grant{}, err
	}
	is, err := s.write(ctx, id, s.sql.take, id, token, s.seconds(r.TTL))
	switch {
	case err != nil:
		s.here.noteDoubt(token, err)
		return driver.Grant{}, err
	case is.token == token && is.live():
		s.here.noteTaken(id, token, &r)
		s.pruneSometimes()
		return s.grant(&is, r.TTL), nil
	}
	return driver.Grant{}, s.heldError(id, &is)
}

// replace transfers the hold of the token r.Replaces to the given token. The lease of that hold
// must not have ended.
func (s *Store) replace(ctx context.Context, id, token string, r *driver.Request) (driver.Grant, error) {
	is, adopted, err := s.writeRow(ctx, id, s.sql.adopt, token, s.seconds(r.TTL), id, storedToken(r.Replaces.Text()))
	// An earlier try of this request may already have transferred the hold. Then only the lease has
	// to be renewed.
	if err == nil && !adopted && is.token == token && is.live() {
		is, err = s.write(ctx, id, s.sql.extend, s.seconds(r.TTL), id, token)
	}
	switch {
	case err != nil:
		s.here.noteDoubt(token, err)
		return driver.Grant{}, err
	case is.token == token && is.live():
		s.here.noteTaken(id, token, r)
		return s.grant(&is, r.TTL), nil
	}
	return driver.Grant{}, driver.ErrLost
}

// Extend implements driver.Store.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := cmp.Or(s.checkName(name), driver.CheckExtend(name, token, ttl, &s.promises)); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	id := s.layout.storedID(s.engine, name)
	var is row
	if ttl == 0 {
		is, err = s.readName(ctx, id)
	} else {
		is, err = s.write(ctx, id, s.sql.extend, s.seconds(ttl), id, storedToken(token))
	}
	switch {
	case err != nil:
		return driver.Grant{}, err
	case is.token != storedToken(token):
		return driver.Grant{}, driver.ErrLost
	case !is.live(): // the lease has ended, but no other token has had the name since
		return driver.Grant{}, driver.ErrExpired
	}
	return s.grant(&is, ttl), nil
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := cmp.Or(s.checkName(name), driver.CheckRelease(name, token, keep, &s.promises)); err != nil {
		return driver.OutcomeGone, err
	}
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer done()
	id, own := s.layout.storedID(s.engine, name), storedToken(token)
	removed, err := s.remove(ctx, s.sql.release, id, own)
	outcome := driver.OutcomeReleased
	if err == nil && !removed {
		outcome = driver.OutcomeExpired // the lease has ended, but no other token has had the name since
		removed, err = s.remove(ctx, s.sql.clear, id, own)
	}
	if err != nil {
		return driver.OutcomeGone, err
	}
	s.here.noteReleased(id, own)
	s.settle(id, own)
	if !removed {
		return driver.OutcomeGone, nil
	}
	return outcome, nil
}

// settle makes sure that a released token does not come back. An earlier statement for the token
// may still be running if its outcome is not known, and it may write the row again after the
// release. So settle removes the row again after each of several pauses.
func (s *Store) settle(id, token string) {
	if !s.here.takeDoubt(token) {
		return
	}
	s.calls.Work.Go(func() {
		for _, d := range settlePauses {
			if !storekit.Sleep(s.calls.Closing, d) {
				break
			}
			s.removeLate(id, token)
		}
		s.removeLate(id, token) // once more before Close returns
	})
}

// settlePauses are the pauses in settle. After each pause, settle tries to remove the row.
//
// A late statement may wait before it can write the row. In a pool that FromURL has opened, it
// waits at most 3 s. With the defaults of MySQL, it waits at most 50 s. So the sum of all pauses is
// longer than 50 s.
var settlePauses = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 40 * time.Second}

func (s *Store) removeLate(id, token string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if removed, err := s.remove(ctx, s.sql.clear, id, token); removed && err == nil {
		s.here.wake(id)
	}
}

// heldError returns the error for a name that somebody holds. It describes the hold if the lease in
// the row has not ended meanwhile.
func (s *Store) heldError(id string, is *row) error {
	err := &driver.HeldError{Waiters: -1}
	if is.live() {
		err.Holds = append(err.Holds, s.holdIn(id, is))
		err.Until = err.Holds[0].Until
	}
	return err
}

// holdIn returns the hold that a row describes. The table does not say which program holds a name.
// So holdIn reports every hold as foreign, except the holds of this process.
func (s *Store) holdIn(id string, is *row) driver.Hold {
	h := driver.Hold{Foreign: true}
	if own, ok := s.here.ownHold(id, is.token); ok {
		h = storekit.HoldOf(own.holder, false, own.since)
	}
	if !is.endless {
		h.Until = time.Now().Add(is.end.timeUntil(is.now))
	}
	return h
}
