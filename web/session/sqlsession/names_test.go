package sqlsession

import (
	"database/sql"
	"strings"
	"testing"
)

// The comment of Table says which names are allowed.
func TestNamesOfTables(t *testing.T) {
	for name, valid := range map[string]bool{
		"sessions": true, "_s2": true, "web.sessions": true, strings.Repeat("s", 51): true, strings.Repeat("w", 63) + ".s": true,
		"": false, "2s": false, "a-b": false, "a.b.c": false, strings.Repeat("s", 52): false, strings.Repeat("w", 64) + ".s": false, `a"b`: false,
	} {
		if _, err := New(&sql.DB{}, Postgres, Table(name)); (err == nil) != valid {
			t.Errorf("table %q: %v", name, err)
		}
	}
}
