package sqlstore_test

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// TestTablesDropped: somebody removes one of the tables, or all but the one with the version. The
// store makes them again, while it is open and when it is opened, and fences do not fall.
func TestTablesDropped(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a := d.party(t)
			last := uint64(0)
			use := func(what string, p *party) {
				t.Helper()
				g, err := p.store.Acquire(t.Context(), driver.Request{Name: "name", Token: driver.TokenOf(what), TTL: time.Minute})
				noError(t, err)
				safety.Rises(t, g.Fence, last, what)
				last = g.Fence
				out, err := p.store.Release(t.Context(), "name", what, 0)
				if out != driver.OutcomeReleased || err != nil {
					t.Errorf("%s: release: %d, %v", what, out, err)
				}
				tx := p.begin(t, 0)
				defer tx.Rollback()
				noError(t, p.store.LockTx(t.Context(), tx, "a name for "+what))
			}
			use("before", a)
			for _, lost := range a.tables() {
				drop(t, a, lost)
				use("after "+lost+", open", a)
				drop(t, a, lost)
				use("after "+lost+", opened", d.party(t))
			}
			drop(t, a, a.tables()...)
			if _, err := a.store.Inspect(t.Context(), "name"); err != nil {
				t.Errorf("Inspect: %v", err)
			}
			use("after all", a)
		})
	}
}

func drop(t *testing.T, p *party, tables ...string) {
	t.Helper()
	for _, table := range tables {
		_, err := p.db.Exec("DROP TABLE " + table)
		noError(t, err)
	}
}
