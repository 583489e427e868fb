package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// take takes a free name in one statement. ok is false if the name is not plainly free, or the
// engine has no such statement: then nothing was changed, and the state has to decide.
func (t *table) take(ctx context.Context, r *driver.Request) (g driver.Grant, ok bool, err error) {
	if t.sql.acquire == "" || r.Shared || r.Replaces != "" {
		return g, false, nil
	}
	holder, err := json.Marshal(r.Holder)
	if err != nil {
		return g, false, err
	}
	ttl, least := max(r.TTL, r.AtLeast), r.AtLeast.Microseconds()
	args := []any{int64(r.FenceAbove + 1), []byte(r.Token), ttl.Microseconds(), least, least, string(holder), []byte{}}
	if t.dialect.grants {
		args = append([]any{[]byte(r.Name)}, args...)
	} else {
		args = append(args, []byte(r.Name))
	}
	err = t.db.QueryRowContext(ctx, t.sql.acquire, args...).Scan(&g.Fence)
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
func (t *table) drop(ctx context.Context, name, token string) (ok bool, err error) {
	ok, err = changed(t.db.ExecContext(ctx, t.sql.release, []byte{}, []byte(name), []byte(token)))
	if undone(err) {
		return false, nil
	}
	return ok, failure(ctx, err, true)
}
