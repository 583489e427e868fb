package memcachestore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

// A value of the application at the key of a lock is neither changed nor removed. A value with an
// end looks like a lock of Symfony, and counts as held.
func TestValueOfTheApplication(t *testing.T) {
	t.Parallel()
	srv := server.Memcached(t)
	plain := mustOpen(t, srv.Addr())
	symfony := mustOpen(t, srv.Addr(), memcachestore.SymfonyLayout())
	app := dial(t, srv.Addr())
	for i, c := range []struct {
		s       *memcachestore.Store
		life    int
		value   string
		key     string
		refused error
	}{
		{symfony, 0, "cached page", "n", driver.ErrUnavailable},
		{symfony, 1000, "cached page", "n", driver.ErrHeld},
		{plain, 0, "cached page", memcachestore.KeyOf(plain, "n"), driver.ErrUnavailable},
		{plain, 1000, `{"v":2}`, memcachestore.KeyOf(plain, "n"), driver.ErrUnavailable},
		{plain, 1000, `[1]`, memcachestore.KeyOf(plain, "n"), driver.ErrUnavailable},
	} {
		app.says("STORED", fmt.Sprintf("set %s 0 %d %d\r\n%s", c.key, c.life, len(c.value), c.value))
		want := func(verb string, err error) {
			t.Helper()
			if !errors.Is(err, c.refused) || c.refused == driver.ErrUnavailable && !strings.Contains(err.Error(), c.key) {
				t.Errorf("%d: %s: %v", i, verb, err)
			}
		}
		_, err := c.s.Acquire(t.Context(), request("n", "a"))
		want("Acquire", err)
		state, err := c.s.Inspect(t.Context(), "n")
		if len(state.Holds) == 0 {
			want("Inspect", err)
		}
		if _, err := c.s.Extend(t.Context(), "n", "a", time.Minute); err == nil {
			t.Errorf("%d: Extend succeeds", i)
		}
		if outcome, _ := c.s.Release(t.Context(), "n", "a", 0); outcome != driver.OutcomeGone {
			t.Errorf("%d: Release: %v", i, outcome)
		}
		app.says(fmt.Sprintf("VALUE %s 0 %d", c.key, len(c.value)), "get "+c.key)
		app.line(c.value)
		app.line("END")
	}
}

func (r *raw) line(want string) {
	r.t.Helper()
	if line, err := r.from.ReadString('\n'); strings.TrimSpace(line) != want {
		r.t.Fatalf("memcached says %q, %v; want %s", line, err, want)
	}
}
