package symfony

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

const (
	pruneOdds  = 100       // one grant in pruneOdds removes old rows, as in PHP
	pruneRows  = "100"     // rows at a time
	pruneAfter = time.Hour // since the end of the lease
)

// pruneSometimes removes old rows in the background, now and then. PHP removes them with one
// DELETE, and the request that happens to run it has to wait. This store removes rows by their
// keys, and no call waits for that.
func (s *Store) pruneSometimes() {
	if rand.IntN(pruneOdds) == 0 {
		s.calls.Work.Go(func() {
			ctx, cancel := dbms.Bound(s.calls.Closing)
			defer cancel()
			_, _ = s.pruneOnce(ctx) // the next prune tries again
		})
	}
}

// Prune removes rows whose leases ended more than an hour ago, at most 100 of them, and returns how
// many it removed. PHP and the store also prune by themselves, after about one grant in 100.
func (s *Store) Prune(ctx context.Context) (int, error) {
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := s.pruneOnce(ctx)
	return n, dbms.Failure(ctx, err, false)
}

func (s *Store) pruneOnce(ctx context.Context) (removed int, err error) {
	rows, err := s.db.QueryContext(ctx, s.sql.old, pruneAfter.Microseconds())
	if err != nil {
		return 0, err
	}
	var old [][2]string
	for rows.Next() {
		var r [2]string
		if err = rows.Scan(&r[0], &r[1]); err != nil {
			break
		}
		old = append(old, r)
	}
	if err = cmp.Or(err, rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	for _, r := range old {
		ok, err := s.remove(ctx, s.sql.prune, r[0], r[1])
		if err != nil {
			return removed, err
		}
		if ok {
			removed++
		}
	}
	return removed, nil
}
