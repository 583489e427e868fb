package redissession_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// TestClosedConnections: the server closes connections, as it does with idle ones if it has a
// timeout. The next read of each session and of each value succeeds.
func TestClosedConnections(t *testing.T) {
	t.Parallel()
	const rounds, keys = 5, 8
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, clientOption(startRedis(t).Addr()))
			s := open(newRedis(t, c))
			key := func(i int) string { return fmt.Sprint("id", i) }
			for i := range keys {
				_, err := s.Commit(t.Context(), key(i), sessionstore.Change{Create: true, TTL: time.Hour})
				noError(t, err)
			}
			for range rounds {
				askServer(t, c, "CLIENT", "KILL", "TYPE", "normal")
				for i := range keys {
					if _, err := s.Load(t.Context(), key(i)); err != nil {
						t.Errorf("Load after the server closed the connection: %v", err)
					}
				}
			}
		})
	}
	t.Run("values", func(t *testing.T) {
		t.Parallel()
		c := dial(t, clientOption(startRedis(t).Addr()))
		v := newRedis(t, c).Values()
		_, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("x"), Fence: 1, Fresh: time.Hour, Keep: time.Hour})
		noError(t, err)
		for range rounds {
			askServer(t, c, "CLIENT", "KILL", "TYPE", "normal")
			if e, err := v.Load(t.Context(), "k"); err != nil || string(e.Value) != "x" {
				t.Errorf("Load after the server closed the connection: %q, %v", e.Value, err)
			}
		}
	})
}
