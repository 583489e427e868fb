package sqlpool

import (
	"errors"
	"reflect"
	"strings"
)

// WrongRole reports whether err says that the server or the session does not write now: the server
// is a standby or a replica, or read-only transactions were the default when the session began.
// Such a statement has changed nothing.
func WrongRole(err error) bool {
	if err == nil {
		return false
	}
	if state := SQLState(err); state != "" {
		return state == "25006"
	}
	switch MySQLNumber(err) {
	case 1290: // the server runs with some option; only one of them is about the role
		return strings.Contains(err.Error(), "read-only") || strings.Contains(err.Error(), "read_only")
	case 1792, 1836: // a session of a read-only period; the whole server is read-only
		return true
	}
	code, ok := SQLiteCode(err)
	return ok && code&0xff == 8 // SQLITE_READONLY: the file was moved, or was read-only when it was opened
}

// SQLState returns the SQLSTATE of an error of PostgreSQL's drivers, or "".
func SQLState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// MySQLNumber returns the number of an error of go-sql-driver/mysql, and 0 for any other error. It
// reads the field Number, because this package does not import the driver.
func MySQLNumber(err error) uint64 {
	v, ok := field(err, "Number")
	if ok && v.CanUint() {
		return v.Uint()
	}
	return 0
}

// SQLiteCode returns the result code of an error of a SQLite driver. The errors of
// modernc.org/sqlite and ncruces/go-sqlite3 have a method for it. Those of mattn/go-sqlite3 have a
// field.
func SQLiteCode(err error) (int, bool) {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code(), true
	}
	if v, ok := field(err, "Code"); ok && v.CanInt() {
		return int(v.Int()), true
	}
	return 0, false
}

// field looks for the named field in err and in the errors that err wraps.
func field(err error, name string) (reflect.Value, bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct {
			continue
		}
		if f := v.FieldByName(name); f.IsValid() {
			return f, true
		}
	}
	return reflect.Value{}, false
}
