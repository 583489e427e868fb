package sqlstore_test

import (
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// A hold in Symfony's table passes to another token in one statement, and MariaDB needs a second
// one to read the row. If the request comes again, because its reply was lost, the hold has the
// token already, and gets its lease.
func TestStatementsOfAnAdoption(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"postgres": 1, "mariadb": 2, "sqlite": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, count := databases[name](t), &atomic.Int64{}
			plain, err := d.pool()
			noError(t, err)
			defer plain.Close()
			db := sql.OpenDB(counting{plain.Driver(), d.dsn, count})
			defer db.Close()
			s, err := symfony.Open(t.Context(), db, d.engine, symfony.Symfony)
			noError(t, err)
			defer s.Close()
			_, err = s.Acquire(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf("old"), TTL: time.Minute})
			noError(t, err)
			adopt := driver.Request{Name: "job", Token: driver.TokenOf("new"), Replaces: driver.TokenOf("old"), TTL: time.Hour}
			before := count.Load()
			g, err := s.Acquire(t.Context(), adopt)
			noError(t, err)
			if n := count.Load() - before; n != want || g.TTL < time.Hour {
				t.Errorf("it takes %d statements and gives %v, want %d and an hour", n, g.TTL, want)
			}
			adopt.TTL = 2 * time.Hour
			g, err = s.Acquire(t.Context(), adopt)
			noError(t, err)
			if g, err := s.Extend(t.Context(), "job", "new", 0); err != nil || g.TTL < 119*time.Minute {
				t.Errorf("after a second request the lease is %v, %v", g.TTL, err)
			}
			if g.TTL < 2*time.Hour {
				t.Errorf("a second request gives %v", g.TTL)
			}
		})
	}
}
