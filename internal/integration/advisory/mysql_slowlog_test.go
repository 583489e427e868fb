package advisory_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A wait is one long statement. It is no entry of the slow query log.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	srv := mariadb.own(t)
	db := mariadb.db(t, srv.URL())
	for _, setting := range []string{"log_output = 'TABLE'", "slow_query_log = 1", "long_query_time = 0.05"} {
		_, err := db.Exec("SET GLOBAL " + setting)
		noError(t, err)
	}
	a, b := mariadb.mustOpen(t, srv.URL(), ""), mariadb.mustOpen(t, srv.URL(), "")
	take(t, a, request("job"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Wait(ctx, request("job"), true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wait: %v", err)
	}
	db = mariadb.db(t, srv.URL()) // sessions from before do not write into the log
	const entries = "SELECT COUNT(*) FROM mysql.slow_log WHERE sql_text LIKE "
	_, err := db.Exec("DO SLEEP(0.1) /* the log works */")
	noError(t, err)
	until(t, "the log works", func() bool { return ask[int](t, db, entries+"'DO SLEEP%'") > 0 })
	if n := ask[int](t, db, entries+"'%GET_LOCK%' AND sql_text NOT LIKE '%slow_log%'"); n != 0 {
		t.Errorf("%d entries for one wait", n)
	}
}
