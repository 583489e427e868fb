package sqlstore

import (
	"database/sql"
	"testing"
)

// TestPoolKeepsItsConnections: after a moment in which all connections were in use, the pool of a
// URL closes none of them. The next such moment would have to open them again, and a server that is
// busy would get slower with each of them.
func TestPoolKeepsItsConnections(t *testing.T) {
	t.Parallel()
	for _, e := range []Engine{PostgreSQL, MySQL, SQLite} {
		db := sql.OpenDB(&file{})
		defer db.Close()
		limit(db, e, 0)
		most := db.Stats().MaxOpenConnections
		var all []*sql.Conn
		for range most {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			c.Close()
		}
		if st := db.Stats(); most < 2 || st.Idle != most {
			t.Errorf("%v: the pool keeps %d of %d connections", e, st.Idle, most)
		}
	}
}
