package pgadvisory

import (
	"errors"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Queued implements advisory.Sharer.
func (d *dialect) Queued(c *conn, l advisory.Lock) (bool, error) {
	rows, err := c.exec(&countQueued, []byte(l.Key), number(d.line(l).base))
	return err == nil && parse(rows[0][0]) > 0, err
}

// refusesNow reports whether the server did not grant a lock at once. It may have granted the lock
// just before the error.
func refusesNow(err error) bool {
	return hasCode(err, lockNotAvailable, queryCanceled, deadlockDetected)
}

// exclusive counts the exclusive locks of a key that this session and others have.
func exclusive(c *conn, key []byte) (mine, others uint64, err error) {
	rows, err := c.exec(&countExclusive, key)
	if err != nil {
		return 0, 0, err
	}
	return parse(rows[0][0]), parse(rows[0][1]), nil
}

// takeSoon waits for a moment until the session has a lock exclusively. After an error the session
// may have it.
func takeSoon(c *conn, key []byte) (bool, error) {
	if c.plpgsql {
		got, err := c.within(promotionSlice, "pg_advisory_xact_lock", key, &tryExclusive, key)
		return string(got) == "t", err
	}
	_, err := c.exec(&promote, key)
	if refusesNow(err) {
		mine, _, err := exclusive(c, key)
		return mine > 0, err
	}
	return err == nil, err
}

// Intend implements advisory.Sharer. The intent is an exclusive lock of its own. A new reader locks
// the intent for a moment, to check that nobody wants to be promoted.
func (d *dialect) Intend(c *conn, l advisory.Lock) (bool, error) {
	got, err := takeSoon(c, d.intent(l))
	if err == nil && !got {
		var others uint64
		if _, others, err = exclusive(c, d.intent(l)); err == nil && others > 0 {
			return false, driver.ErrPromotionConflict
		}
	}
	if err != nil {
		return false, release(c, d.intent(l), err)
	}
	return got, nil
}

// Withdraw implements advisory.Sharer.
func (d *dialect) Withdraw(c *conn, l advisory.Lock) (bool, error) {
	return c.isTrue(&unlock[0], d.intent(l))
}

// Promote implements advisory.Sharer. It takes the exclusive lock, and then releases the shared one
// and the intent.
func (d *dialect) Promote(c *conn, l advisory.Lock, r *driver.Request) (g advisory.Grant, err error) {
	key := []byte(l.Key)
	got, err := takeSoon(c, key)
	if err == nil && !got {
		return g, nil
	}
	if err == nil && !d.cfg.NoFences {
		g.Fence, err = d.mint(c, l, false, r)
	}
	if err != nil {
		return g, release(c, key, err)
	}
	rows, err := c.exec(&promoted, key, d.intent(l))
	switch {
	case err != nil:
		c.Lose(err)
	case string(rows[0][0]) != "t" || string(rows[0][1]) != "t":
		c.Lose(errors.New("the session did not have the shared lock"))
	}
	g.Granted = err == nil
	return g, err
}

// release gives up a lock that the session may have exclusively, and returns the error that it was
// given.
func release(c *conn, key []byte, why error) error {
	if _, err := c.exec(&unlock[0], key); err != nil {
		c.Lose(err)
	}
	return why
}

// Demote implements advisory.Sharer. It takes the shared lock before it releases the exclusive one,
// so nobody can take the lock in between. The statement calls pg_advisory_lock_shared, which can
// wait for a lock. It does not wait here: a session that has the exclusive lock goes ahead of the
// sessions that wait for it.
func (d *dialect) Demote(c *conn, l advisory.Lock) error {
	key := []byte(l.Key)
	if !d.cfg.NoFences {
		// Readers that join from now on get the same fence.
		if _, err := c.exec(&d.sql.toShared, key); err != nil {
			return err
		}
	}
	rows, err := c.exec(&demote, key)
	if err == nil && string(rows[0][2]) != "t" {
		err = errors.New("the session did not have the lock")
	}
	if err != nil {
		c.Lose(err)
	}
	return err
}
