package sqlstore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// A loadedState is a state that the caller has already read, so the next step need not load it
// again. A nil *loadedState means that no state has been read.
type loadedState struct {
	*state
	now decide.Time
}

// takeFree acquires a free name in one statement. If ok is false, nothing was changed, because the
// name may not be free or because the engine has no such statement. The caller then loads the state
// and decides.
func (t *table) takeFree(ctx context.Context, r *driver.Request) (g driver.Grant, ok bool, err error) {
	text := t.sql.acquire
	if text == "" && t.mariaDB.Load() {
		text = t.sql.acquireBoth
	}
	if text == "" || r.Shared || r.Replaces.Text() != "" {
		return g, false, nil
	}
	return t.grantRow(ctx, text, "", r)
}

// passHold ends the live exclusive hold of a token and grants the name to r, in one statement. If
// ok is false, nothing was changed, for instance because somebody waits.
func (t *table) passHold(ctx context.Context, token string, r *driver.Request) (g driver.Grant, ok bool, err error) {
	if t.sql.pass == "" {
		return g, false, nil
	}
	return t.grantRow(ctx, t.sql.pass, token, r)
}

// grantRow runs a statement that gives the name to r. The statement does so only if the row has the
// token fromToken.
func (t *table) grantRow(ctx context.Context, text, fromToken string, r *driver.Request) (g driver.Grant, ok bool, err error) {
	holder, err := asciiJSON(r.Holder)
	if err != nil {
		return g, false, err
	}
	inMore := `%"` + base64.RawStdEncoding.EncodeToString([]byte(r.Token.Text())) + `"%`
	args := []any{int64(r.FenceAbove + 1), []byte(r.Token.Text()), r.TTL.Microseconds(), string(holder)}
	if t.sql.acquire == "" {
		g.Fence, err = t.takeBoth(ctx, text, append(args, int64(r.FenceAbove+1), []byte(fromToken), inMore, []byte(r.Name)))
	} else {
		err = t.queryRow(ctx, text, append(args, []byte(fromToken), inMore, []byte(r.Name))...).Scan(&g.Fence)
	}
	return granted(ctx, r, g.Fence, err)
}

// granted returns the result of a statement that grants a hold to r, if there is no error.
func granted(ctx context.Context, r *driver.Request, fence uint64, err error) (g driver.Grant, ok bool, failed error) {
	switch {
	case errors.Is(err, sql.ErrNoRows), changedNothing(err):
		return g, false, nil
	case err != nil:
		return g, false, dbms.Failure(ctx, err, true)
	}
	return driver.Grant{Fence: fence, TTL: r.TTL}, true, nil
}

// takeBoth runs the statement that writes to both tables. It gets the fence through LAST_INSERT_ID,
// because an UPDATE on MariaDB returns no rows.
func (t *table) takeBoth(ctx context.Context, text string, args []any) (fence uint64, err error) {
	res, err := t.exec(ctx, text, args...)
	if ok, err := dbms.Changed(res, err); err != nil {
		return 0, err
	} else if !ok {
		return 0, sql.ErrNoRows
	}
	id, err := res.LastInsertId()
	return uint64(id), err
}

// claimHold claims an exclusive reservation in one statement. The token then has a hold. The result
// ok is false if the token has no such reservation.
func (t *table) claimHold(ctx context.Context, r *driver.Request) (g driver.Grant, ok bool, err error) {
	if t.sql.claim == "" || r.Shared {
		return g, false, nil
	}
	holder, err := asciiJSON(r.Holder)
	if err != nil {
		return g, false, err
	}
	err = t.queryRow(ctx, t.sql.claim, r.TTL.Microseconds(), string(holder), []byte(r.Name), []byte(r.Token.Text())).Scan(&g.Fence)
	return granted(ctx, r, g.Fence, err)
}

// changedNothing reports whether err means that a one-statement shortcut changed nothing. The
// caller then loads and saves the state instead.
func changedNothing(err error) bool {
	v := dbms.Judge(err)
	return err != nil && (v == dbms.Again || v == dbms.NoTable || v == dbms.RowLocked)
}

// prolong extends a live exclusive hold in one statement. ok is false if there is no such hold.
func (t *table) prolong(ctx context.Context, name, token string, micros int64) (ok bool, err error) {
	ok, err = dbms.Changed(t.exec(ctx, t.sql.extend, micros, []byte(name), []byte(token)))
	if changedNothing(err) {
		return false, nil
	}
	return ok, dbms.Failure(ctx, err, true)
}

// dropHold releases a live exclusive hold, or a reservation, in one statement. ok is false if there
// is no such hold or if somebody waits for the name.
func (t *table) dropHold(ctx context.Context, name, token string) (ok bool, err error) {
	ok, err = dbms.Changed(t.exec(ctx, t.sql.release, []byte{}, []byte(name), []byte(token)))
	if changedNothing(err) {
		return false, nil
	}
	return ok, dbms.Failure(ctx, err, true)
}
