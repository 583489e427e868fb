package pgadvisory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/padlock-go/padlock/driver"
)

// These are the PostgreSQL error codes that the store handles in different ways.
const (
	lockNotAvailable = "55P03" // lock_timeout has passed
	queryCanceled    = "57014"
	deadlockDetected = "40P01"
	undefinedTable   = "42P01"
	notPrivileged    = "42501"
	uniqueViolation  = "23505" // two processes create a table at the same time
	duplicateTable   = "42P07"
	noStatement      = "26000" // a statement was prepared in another session
	twoStatements    = "42P05"
)

// hasCode reports whether the server refused a statement with one of these codes.
func hasCode(err error, codes ...string) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && slices.Contains(codes, p.Code)
}

var errTransactionMode = fmt.Errorf("%w: a pooler in transaction mode (such as PgBouncer's pool_mode=transaction) is between, which gives a session to several clients, so that advisory locks exclude nobody; connect to the server itself or to a pool with pool_mode=session, or use a lease table (package sqlstore, postgres://)", driver.ErrInvalid)
