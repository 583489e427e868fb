package dbms

import (
	"errors"
	"reflect"
)

// mysqlNumber returns the number of an error of go-sql-driver/mysql, and 0 for any other error. It
// reads the field Number, because this package does not import the driver.
func mysqlNumber(err error) uint64 {
	v, ok := field(err, "Number")
	if ok && v.CanUint() {
		return v.Uint()
	}
	return 0
}

// sqliteCode returns the result code of an error of a SQLite driver. The errors of
// modernc.org/sqlite and ncruces/go-sqlite3 have a method for it. Those of mattn/go-sqlite3 have a
// field.
func sqliteCode(err error) (int, bool) {
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
