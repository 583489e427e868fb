package symfony

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// The comments of Table and Columns say which names are allowed.
func TestNamesOfTables(t *testing.T) {
	for _, c := range []struct {
		name  string
		opt   Option
		valid bool
	}{
		{"a schema", Table("locks.lock_keys"), true},
		{"two dots", Table("a.b.c"), false},
		{"a digit at the beginning", Table("2locks"), false},
		{"a digit and a dollar", Table("l2$"), true},
		{"an empty name", Table(""), false},
		{"a quote", Table(`a"b`), false},
		{"columns", Columns("a", "b", "c_2"), true},
		{"a column without a name", Columns("a", "", "c"), false},
		{"a column with a dot", Columns("a.b", "b", "c"), false},
	} {
		_, err := configure(sqlstore.PostgreSQL, Symfony, []Option{c.opt})
		if (err == nil) != c.valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
