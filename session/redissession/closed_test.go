package redissession_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/session/sessionstore"
	"github.com/padlock-go/padlock/stampede"
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
				unlessLate(t, func() (err error) {
					askServer(t, c, "CLIENT", "KILL", "TYPE", "normal")
					for i := range keys {
						if _, failed := s.Load(t.Context(), key(i)); failed != nil {
							err = fmt.Errorf("Load after the server closed the connection: %w", failed)
						}
					}
					return err
				})
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
			unlessLate(t, func() error {
				askServer(t, c, "CLIENT", "KILL", "TYPE", "normal")
				e, err := v.Load(t.Context(), "k")
				if err != nil {
					return fmt.Errorf("Load after the server closed the connection: %w", err)
				}
				if string(e.Value) != "x" {
					t.Errorf("Load after the server closed the connection: %q", e.Value)
				}
				return nil
			})
		}
	})
}

// unlessLate calls f, which must return nil. A read is repeated within 15 ms, and the client must
// have found out meanwhile that its connection is closed. So f is called again if the machine was
// so busy that a goroutine which looks every millisecond was late.
func unlessLate(t *testing.T, f func() error) {
	t.Helper()
	for try := 1; ; try++ {
		stop, latest := make(chan struct{}), make(chan time.Duration, 1)
		go func() {
			var late time.Duration
			for before := time.Now(); ; before = time.Now() {
				select {
				case <-stop:
					latest <- late
					return
				case <-time.After(time.Millisecond):
					late = max(late, time.Since(before))
				}
			}
		}()
		err := f()
		close(stop)
		late := <-latest
		if err == nil {
			return
		}
		if try == 5 || late < 4*time.Millisecond {
			t.Errorf("%v; the machine was late by %v", err, late)
			return
		}
	}
}
