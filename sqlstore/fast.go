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

// take takes a free name in one statement. If the name is not plainly free, or the engine has no
// such statement, nothing was changed and the state has to decide.
func (t *table) take(ctx context.Context, r *driver.Request) (g driver.Grant, ok bool, st *seen, err error) {
	if t.sql.acquire == "" || r.Shared || r.Replaces != "" {
		return g, false, nil, nil
	}
	holder, err := json.Marshal(r.Holder)
	if err != nil {
		return g, false, nil, err
	}
	ttl, least := max(r.TTL, r.AtLeast), r.AtLeast.Microseconds()
	args := []any{int64(r.FenceAbove + 1), []byte(r.Token), ttl.Microseconds(), least, least, string(holder), []byte{}}
	if t.dialect.grants {
		args = append([]any{[]byte(r.Name)}, args...)
		st = &seen{}
		_, st.state, st.now, err = scan(t.db.QueryRowContext(ctx, t.sql.acquire, args...), &g.Fence)
	} else {
		err = t.db.QueryRowContext(ctx, t.sql.acquire, append(args, []byte(r.Name))...).Scan(&g.Fence)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows), undone(err):
		return driver.Grant{}, false, nil, nil
	case err != nil:
		return driver.Grant{}, false, nil, failure(ctx, err, true)
	case g.Fence == 0:
		return g, false, st, nil
	}
	g.TTL = ttl
	return g, true, nil, nil
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
	err = t.db.QueryRowContext(ctx, t.sql.claim, ttl.Microseconds(), least, least, string(holder), []byte(r.Name), []byte(r.Token)).Scan(&g.Fence)
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
	return err != nil && (v == again || v == noTable)
}

// prolong extends a live exclusive hold in one statement. ok is false if there is none.
func (t *table) prolong(ctx context.Context, name, token string, micros int64) (ok bool, err error) {
	ok, err = changed(t.db.ExecContext(ctx, t.sql.extend, micros, []byte(name), []byte(token)))
	if undone(err) {
		return false, nil
	}
	return ok, failure(ctx, err, true)
}

// drop gives a live exclusive hold back in one statement. ok is false if there is none, or somebody
// waits.
func (t *table) drop(ctx context.Context, name, token string) (ok bool, st *seen, err error) {
	args := []any{[]byte{}, []byte(name), []byte(token)}
	if t.dialect.numbers {
		st = &seen{}
		var n int
		_, st.state, st.now, err = scan(t.db.QueryRowContext(ctx, t.sql.release, args...), &n)
		ok = n > 0
	} else {
		ok, err = changed(t.db.ExecContext(ctx, t.sql.release, args...))
	}
	if errors.Is(err, sql.ErrNoRows) || undone(err) {
		return false, nil, nil
	}
	if err != nil {
		st = nil
	}
	return ok, st, failure(ctx, err, true)
}
