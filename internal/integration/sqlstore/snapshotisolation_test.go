package sqlstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// With innodb_snapshot_isolation, which is on after an upgrade of MariaDB, statements fail with
// error 1020 that worked before.
func TestSnapshotIsolation(t *testing.T) {
	t.Parallel()
	srv := server.MariaDBWith(t, server.MariaDBOptions{Args: []string{"--innodb-snapshot-isolation=ON"}})
	d := database{"mysql", srv.URL(), sqlstore.MySQL}
	t.Run("transactions", func(t *testing.T) { transactions(t, d.party(t), d.party(t), d.engine) })
	t.Run("crowd", func(t *testing.T) {
		var crowd sync.WaitGroup
		for i := range 8 {
			p := d.party(t)
			crowd.Go(func() {
				token := fmt.Sprint("process ", i)
				for n := 0; n < 10; {
					_, err := p.store.Acquire(t.Context(), driver.Request{Name: "crowded", Token: driver.TokenOf(token), TTL: time.Minute})
					if errors.Is(err, driver.ErrHeld) {
						continue
					}
					n++
					if err == nil {
						_, err = p.store.Release(t.Context(), "crowded", token, 0)
					}
					if err != nil {
						t.Errorf("%s: %v", token, err)
						return
					}
				}
			})
		}
		crowd.Wait()
	})
}
