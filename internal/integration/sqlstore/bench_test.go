package sqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func BenchmarkPair(b *testing.B) {
	for name, start := range databases {
		b.Run(name, func(b *testing.B) {
			d := start(b)
			db, err := d.pool()
			noError(b, err)
			b.Cleanup(func() { db.Close() })
			b.Run("bare", func(b *testing.B) { bare(b, db, name) })
			s, err := d.open(b.Context())
			noError(b, err)
			b.Cleanup(func() { s.Close() })
			b.Run("sqlstore", func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Acquire(b.Context(), driver.Request{Name: "name", Token: driver.TokenOf("token"), TTL: time.Minute, Holder: driver.Holder{Host: "host.example", PID: 4711}}); err != nil {
						b.Fatal(err)
					}
					if out, err := s.Release(b.Context(), "name", "token", 0); err != nil || out != driver.OutcomeReleased {
						b.Fatal(out, err)
					}
				}
			})
		})
	}
}

// bare measures the minimum that a lease in a table needs: two statements that change one row.
func bare(b *testing.B, db *sql.DB, engine string) {
	_, err := db.Exec("CREATE TABLE bare (name varchar(100) PRIMARY KEY, token varchar(64), ends bigint)")
	noError(b, err)
	_, err = db.Exec("INSERT INTO bare VALUES ('name', '', 0)")
	noError(b, err)
	take, free := "UPDATE bare SET token = ?, ends = ? WHERE name = ? AND token = ''", "UPDATE bare SET token = '' WHERE name = ? AND token = ?"
	if engine == "postgres" {
		take, free = "UPDATE bare SET token = $1, ends = $2 WHERE name = $3 AND token = ''", "UPDATE bare SET token = '' WHERE name = $1 AND token = $2"
	}
	for b.Loop() {
		_, err := db.ExecContext(b.Context(), take, "token", time.Now().UnixMicro(), "name")
		noError(b, err)
		_, err = db.ExecContext(b.Context(), free, "name", "token")
		noError(b, err)
	}
}
