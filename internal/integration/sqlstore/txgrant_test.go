package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestNoGrantUnderCheckTx: while a transaction has checked a lock, no call gives the name to
// another one, in whatever way the lock ends meanwhile.
func TestNoGrantUnderCheckTx(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("every write waits for the transaction")
		}
		a, b := d.party(t), d.party(t)
		request := func(name, token string, shared bool) driver.Request {
			return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Shared: shared}
		}
		acquire := func(r driver.Request) func() error {
			return func() error { _, err := b.store.Acquire(t.Context(), r); return err }
		}
		convert := func(r driver.Request) func() error {
			return func() error { _, err := b.store.Convert(t.Context(), r); return err }
		}
		exclusive := func(name string) map[string]func() error {
			replaces := request(name, "replaces", false)
			replaces.Replaces = driver.TokenOf("holder")
			return map[string]func() error{
				"a reader": acquire(request(name, "reader", true)), "a writer": acquire(request(name, "writer", false)),
				"Replaces": acquire(replaces), "a demotion": convert(request(name, "holder", true)),
				"Pass": func() error {
					out, g, err := b.store.Pass(t.Context(), "holder", request(name, "next", false))
					if err == nil && g.TTL == 0 {
						return fmt.Errorf("%w: nothing was handed over (%v)", driver.ErrHeld, out)
					}
					return err
				},
			}
		}
		for what := range exclusive("") {
			for _, ends := range []bool{false, true} {
				name := what
				if ends {
					name += " after the release"
				}
				g, err := a.store.Acquire(t.Context(), request(name, "holder", false))
				noError(t, err)
				tx := a.begin(t, sql.LevelDefault)
				noError(t, a.store.CheckTx(t.Context(), tx, granted{name, g.Fence}))
				if ends {
					_, err = a.store.Release(t.Context(), name, "holder", 0)
				}
				noError(t, err)
				if err := exclusive(name)[what](); err == nil {
					safety.TwoHold(t, "%s succeeded while a transaction has the name", name)
				} else if !ends {
					wantError(t, name, err, driver.ErrHeld)
				}
				for _, shared := range []bool{true, false} {
					if _, err := b.store.Acquire(t.Context(), request(name, "another", shared)); err == nil {
						safety.TwoHold(t, "after %s, another one got the name while a transaction has it", name)
					}
				}
				noError(t, a.store.ConfirmTx(t.Context(), tx))
				noError(t, tx.Commit())
			}
		}
		shared(t, a, b, request, acquire, convert)
	})
}

// shared: while a transaction has checked a shared lock, other readers get in, and no writer does.
func shared(t *testing.T, a, b *party, request func(name, token string, shared bool) driver.Request, acquire, convert func(driver.Request) func() error) {
	const name = "shared"
	g, err := a.store.Acquire(t.Context(), request(name, "holder", true))
	noError(t, err)
	tx := a.begin(t, sql.LevelDefault)
	noError(t, a.store.CheckTx(t.Context(), tx, granted{name, g.Fence}))
	noError(t, acquire(request(name, "reader", true))())
	_, err = a.store.Release(t.Context(), name, "holder", 0)
	noError(t, err)
	wantError(t, "the promotion of another reader", convert(request(name, "reader", false))(), driver.ErrHeld)
	noError(t, convert(request(name, "reader", true))()) // it withdraws its promotion
	_, err = b.store.Release(t.Context(), name, "reader", 0)
	noError(t, err)
	wantError(t, "a writer", acquire(request(name, "writer", false))(), driver.ErrHeld)
	noError(t, tx.Commit())
	noError(t, acquire(request(name, "writer", false))())
	noError(t, convert(request(name, "writer", true))())
}

// TestLockTxUnderALease: process numbers and host names are not unique, so LockTx says ErrHeld for
// every lease, and names its holder. Two containers may both be process 1 of one host.
func TestLockTxUnderALease(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		lock, err := p.locker.TryAcquire(t.Context(), "name")
		noError(t, err)
		tx, err := p.lockTx(t, "name")
		if held := new(driver.HeldError); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].PID != os.Getpid() {
			t.Errorf("LockTx under a lease of a process with this number: %v", err)
		}
		noError(t, tx.Rollback())
		noError(t, lock.Release())
	})
}
