package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// A seen state was read by a statement that did not do what it was sent for, so that the state need
// not be loaded again. It is nil if there is none.
type seen struct {
	*state
	now micros
}

// take takes a free name in one statement. ok is false, and nothing was changed, if the name is not
// plainly free or the engine has no such statement: then the state has to decide.
func (t *table) take(ctx context.Context, r *driver.Request) (g driver.Grant, ok bool, err error) {
	text := t.sql.acquire
	if text == "" && t.mariaDB.Load() {
		text = t.sql.acquireBoth
	}
	if text == "" || r.Shared || r.Replaces != "" {
		return g, false, nil
	}
	holder, err := json.Marshal(r.Holder)
	if err != nil {
		return g, false, err
	}
	ttl, least := max(r.TTL, r.AtLeast), r.AtLeast.Microseconds()
	args := []any{int64(r.FenceAbove + 1), []byte(r.Token), ttl.Microseconds(), least, least, string(holder)}
	if t.sql.acquire == "" {
		g.Fence, err = t.takeBoth(ctx, text, append(args, int64(r.FenceAbove+1), []byte{}, []byte(r.Name)))
	} else {
		err = t.queryRow(ctx, text, append(args, []byte{}, []byte(r.Name))...).Scan(&g.Fence)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows), undone(err):
		return driver.Grant{}, false, nil
	case err != nil:
		return driver.Grant{}, false, failure(ctx, err, true)
	}
	g.TTL = ttl
	return g, true, nil
}

// takeBoth runs the statement that writes to both tables. It returns the fence by the way of
// LAST_INSERT_ID, because MariaDB's UPDATE returns no rows.
func (t *table) takeBoth(ctx context.Context, text string, args []any) (fence uint64, err error) {
	res, err := t.db.ExecContext(ctx, text, args...)
	if ok, err := changed(res, err); err != nil {
		return 0, err
	} else if !ok {
		return 0, sql.ErrNoRows
	}
	id, err := res.LastInsertId()
	return uint64(id), err
}

// claim turns a reservation for an exclusive hold into the hold, in one statement. ok is false if
// there is none.
func (t *table) claim(ctx context.Context, r *driver.Request) (g driver.Grant, ok bool, err error) {
	if t.sql.claim == "" || r.Shared {
		return g, false, nil
	}
	holder, err := json.Marshal(r.Holder)
	if err != nil {
		return g, false, err
	}
	ttl, least := max(r.TTL, r.AtLeast), r.AtLeast.Microseconds()
	err = t.queryRow(ctx, t.sql.claim, ttl.Microseconds(), least, least, string(holder), []byte(r.Name), []byte(r.Token)).Scan(&g.Fence)
	switch {
	case errors.Is(err, sql.ErrNoRows), undone(err):
		return driver.Grant{}, false, nil
	case err != nil:
		return driver.Grant{}, false, failure(ctx, err, true)
	}
	g.TTL = ttl
	return g, true, nil
}

// undone reports whether a statement changed nothing for a reason that the slower way gets over.
func undone(err error) bool {
	v := judge(err)
	return err != nil && (v == again || v == noTable || v == rowLocked)
}

// prolong extends a live exclusive hold in one statement. ok is false if there is none.
func (t *table) prolong(ctx context.Context, name, token string, micros int64) (ok bool, err error) {
	ok, err = changed(t.exec(ctx, t.sql.extend, micros, []byte(name), []byte(token)))
	if undone(err) {
		return false, nil
	}
	return ok, failure(ctx, err, true)
}

// drop gives a live exclusive hold back in one statement. ok is false if there is none, or somebody
// waits.
func (t *table) drop(ctx context.Context, name, token string) (ok bool, err error) {
	ok, err = changed(t.exec(ctx, t.sql.release, []byte{}, []byte(name), []byte(token)))
	if undone(err) {
		return false, nil
	}
	return ok, failure(ctx, err, true)
}
