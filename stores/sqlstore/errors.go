package sqlstore

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// The verdicts on an error of the database; package dbms explains them.
const (
	unknown   = dbms.Unknown
	again     = dbms.Again
	rowLocked = dbms.RowLocked
	noTable   = dbms.NoTable
)

func judge(err error) dbms.Verdict { return dbms.Judge(err) }

// failure returns the error of a call whose statement failed with err. wasSent means that the
// statement may have changed something.
func failure(ctx context.Context, err error, wasSent bool) error {
	return dbms.Failure(ctx, err, wasSent)
}

// bound gives a context the deadline of a call.
func bound(ctx context.Context) (context.Context, context.CancelFunc) { return dbms.Bound(ctx) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
