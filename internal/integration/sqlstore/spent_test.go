package sqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// TestReleasedTokenIsSpent: an Acquire that arrives after the release of its hold gets nothing, and
// is in nobody's way.
func TestReleasedTokenIsSpent(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		late := func(name string) {
			t.Helper()
			_, err := p.store.Acquire(t.Context(), driver.Request{Name: name, Token: "token", TTL: time.Minute})
			wantError(t, "a late Acquire of "+name, err, driver.ErrLost)
		}
		for name, ends := range map[string]func(){
			"released": func() {},
			"released twice": func() {
				_, err := p.store.Release(t.Context(), "released twice", "token", 0)
				noError(t, err)
			},
			"looked at": func() {
				_, err := p.store.Release(t.Context(), "looked at", "unknown", 0) // writes the whole row again
				noError(t, err)
			},
		} {
			p.hold(t, name, "token")
			_, err := p.store.Release(t.Context(), name, "token", 0)
			noError(t, err)
			ends()
			late(name)
			late(name)
			p.hold(t, name, "another")
		}
	})
}

// TestSpentTokensAreFew: a wait that is given up leaves nothing in the row, and tokens that had
// nothing when they were released leave 16 entries at most.
func TestSpentTokensAreFew(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		p.hold(t, "name", "token")
		spent := func() int {
			var more string
			noError(t, p.db.QueryRow("SELECT more FROM padlock_locks").Scan(&more))
			_, list, _ := strings.Cut(more, `"spent":[`)
			return strings.Count(list, `"t":`)
		}
		for i := range 20 {
			ctx, giveUp := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = p.store.Wait(ctx, driver.Request{Name: "name", Token: fmt.Sprint("waiter ", i), TTL: time.Minute}, true)
			}()
			eventually(t, "the waiter has a place", func() bool {
				st, err := p.store.Inspect(t.Context(), "name")
				return err == nil && st.Waiters == 1
			})
			giveUp()
			<-ended
		}
		if n := spent(); n > 0 {
			t.Errorf("20 waits that were given up left %d entries", n)
		}
		for i := range 30 {
			_, err := p.store.Release(t.Context(), "name", fmt.Sprint("lost ", i), 0)
			noError(t, err)
		}
		if n := spent(); n != 16 {
			t.Errorf("30 releases that found nothing left %d entries, want 16", n)
		}
	})
}

