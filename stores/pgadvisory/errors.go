package pgadvisory

import (
	"context"
	"errors"
	"fmt"

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

// A connError means that a connection has ended.
type connError struct {
	err    error
	unsent bool // the statement was certainly not carried out
}

func (e *connError) Error() string { return e.err.Error() }
func (e *connError) Unwrap() error { return e.err }

// hasCode reports whether the server refused a statement with one of these codes.
func hasCode(err error, codes ...string) bool {
	var p *pgconn.PgError
	if !errors.As(err, &p) {
		return false
	}
	for _, c := range codes {
		if p.Code == c {
			return true
		}
	}
	return false
}

// connEnded reports whether err ended the connection. unsent is true if the statement was certainly
// not carried out.
func connEnded(err error) (yes, unsent bool) {
	var c *connError
	if !errors.As(err, &c) {
		return false, false
	}
	return true, c.unsent
}

var errTransactionMode = fmt.Errorf("%w: a pooler in transaction mode (such as PgBouncer's pool_mode=transaction) is between, which gives a session to several clients, so that advisory locks exclude nobody; connect to the server itself or to a pool with pool_mode=session, or use a lease table (package sqlstore, postgres://)", driver.ErrInvalid)

// failure turns the error of a statement into the error that callers see. It relies on this: if the
// server refused a statement, the statement changed nothing.
func failure(err error) error {
	switch yes, unsent := connEnded(err); {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnavailable):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, err) // a time limit of the store, not of the caller
	case yes && !unsent:
		return fmt.Errorf("%w: %s", driver.ErrUncertain, err)
	case hasCode(err, undefinedTable):
		return fmt.Errorf("%w: the table of fences is missing; make it with the SQL of Schema, or leave fences out: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
