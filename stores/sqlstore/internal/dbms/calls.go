package dbms

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/storekit"
)

// Begin starts a call, and calls check. The returned context has the deadline of a call (see Bound).
// The caller must call done at the end.
func Begin(ctx context.Context, calls *storekit.Calls, check func(ctx context.Context) error) (bounded context.Context, done func(), err error) {
	bounded, done, err = calls.Enter(ctx, Bound)
	if err != nil {
		return nil, nil, err
	}
	if err := check(bounded); err != nil {
		done()
		return nil, nil, err
	}
	return bounded, done, nil
}

// Pause waits a little before the next try, longer each time. It returns false when ctx ends.
func Pause(ctx context.Context, try int) bool {
	return storekit.Sleep(ctx, rand.N(time.Millisecond<<min(try, 5))+50*time.Microsecond)
}

// Changed reports whether a statement changed a row.
func Changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
