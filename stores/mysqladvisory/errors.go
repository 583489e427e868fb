package mysqladvisory

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// These are the error numbers that the store handles in different ways.
const (
	deadlock         = 1213 // MariaDB: the wait for a named lock would be a deadlock
	userLockDeadlock = 3058 // MySQL: the same
	noTable          = 1146
	noDatabase       = 1049
	deniedDatabase   = 1044
	deniedTable      = 1142
)

// endings are the error numbers with which the server says that it ends the connection.
var endings = []uint64{
	1053, // the server shuts down
	1152, // the connection was aborted
	1927, // MariaDB: the connection was killed
	3169, // MySQL: the same
	4031, // MySQL: the connection was idle for too long
}

// number returns the number of an error of the server, or 0. This package imports no driver, so it
// looks for the field Number, which the error of go-sql-driver/mysql has.
func number(err error) uint64 {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct {
			continue
		}
		if f := v.FieldByName("Number"); f.IsValid() && f.CanUint() {
			return f.Uint()
		}
	}
	return 0
}

// hasNumber reports whether the server refused a statement with one of these numbers.
func hasNumber(err error, numbers ...uint64) bool {
	return err != nil && slices.Contains(numbers, number(err))
}

var (
	errOtherSession = fmt.Errorf("%w: another session of the server answered, or the session was reset; a proxy that shares sessions between clients (multiplexing) is between, and named locks exclude nobody there: connect to the server itself, switch multiplexing off for this user, or use a lease table (package sqlstore, mysql://)", driver.ErrInvalid)
	errGalera       = fmt.Errorf("%w: the server is a node of a Galera cluster, and a named lock excludes only the clients of one node; use a lease table (package sqlstore, mysql://) or a server that is no cluster", driver.ErrInvalid)
	errReadOnly     = fmt.Errorf("%w: the server is read-only, as a replica is, and the primary does not see its locks; connect to the primary", driver.ErrUnavailable)
	errTwoServers   = fmt.Errorf("%w: the connections lead to two servers, whose locks do not exclude each other; name one server", driver.ErrUnavailable)
	errNull         = errors.New("the server could not give the lock: GET_LOCK returned NULL")
)
