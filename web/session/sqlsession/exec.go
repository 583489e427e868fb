package sqlsession

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/sqlpool"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// count runs a statement and returns how many rows it changed. If the database aborts the statement
// because of a conflict with another one, count runs it again.
func (r *rows) count(ctx context.Context, q string, args ...any) (int64, error) {
	q = r.query(q)
	for try := 0; ; try++ {
		res, err := r.db.ExecContext(ctx, q, args...)
		if err == nil {
			return res.RowsAffected()
		}
		if sqlpool.WrongRole(err) {
			return 0, fmt.Errorf("%w: sqlsession: %w", sessionstore.ErrUnavailable, sqlpool.Explain(err))
		}
		if !brokenOff(err) || !waitToRetry(ctx, try) {
			return 0, fmt.Errorf("sqlsession: %w", err)
		}
	}
}

// create runs a statement of the schema. If two processes run it at the same time, PostgreSQL
// returns an error to one of them, even for IF NOT EXISTS. Then create runs the statement again.
func (r *rows) create(ctx context.Context, q string) error {
	for try := 0; ; try++ {
		_, err := r.db.ExecContext(ctx, q)
		if err == nil || !brokenOff(err) && !madeMeanwhile(err) || !waitToRetry(ctx, try) {
			return err
		}
	}
}

// madeMeanwhile reports whether another process was making the same table or index.
func madeMeanwhile(err error) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && slices.Contains([]string{"23505", "42P07", "42710"}, coded.SQLState())
}

// brokenOff reports whether the database aborted a statement because of a conflict with another
// statement: a deadlock, or an anomaly that a strict isolation level forbids. The error has the
// SQLSTATE 40001 or, for a deadlock, PostgreSQL's own code. Some drivers return the code from a
// method; in others it is in the text.
func brokenOff(err error) bool {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState() == "40001" || coded.SQLState() == "40P01"
	}
	return strings.Contains(err.Error(), "(40001)")
}

// waitToRetry waits for a random time before the next try. That time grows with the number of
// tries. The result is false if there were too many tries or if ctx has ended.
func waitToRetry(ctx context.Context, try int) bool {
	if try >= maxTries {
		return false
	}
	t := time.NewTimer(rand.N(time.Duration(1+min(try, 20)) * time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// query fills in the table's name, the clock and the placeholders.
func (r *rows) query(q string) string {
	q = strings.NewReplacer("{table}", r.table, "{now}", r.d.now, "{live}", r.live(), "{over}", "version IS NOT NULL AND expires > 0 AND expires <= "+r.d.now,
		"{batch}", strconv.Itoa(sweepBatch)).Replace(q)
	if !r.d.numbered {
		return q
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(q, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		n++
		b.WriteString(part)
	}
	return b.String()
}

// live returns the SQL condition that a row has not expired. It names the column version, as {over}
// does. So if the table is another program's, which has the columns id and expires only, the
// database refuses the statement, and no row is changed or deleted.
func (r *rows) live() string {
	return "(version IS NOT NULL AND (expires = 0 OR expires > " + r.d.now + "))"
}
