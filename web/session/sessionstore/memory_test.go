package sessionstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

var create = sessionstore.Change{Create: true, TTL: time.Minute}

// TestMaxSessions: a full Memory refuses new sessions and serves the others. Sessions that have
// ended make room.
func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := sessionstore.NewMemory(sessionstore.MaxSessions(3))
		for i := range 5 {
			_, err := m.Commit(bg, fmt.Sprint(i), create)
			if full := i >= 3; errors.Is(err, sessionstore.ErrUnavailable) != full || (err != nil) != full {
				t.Errorf("number %d: %v", i, err)
			}
		}
		_, err := m.Commit(bg, "0", sessionstore.Change{TTL: time.Hour})
		noError(t, err)
		if _, err := m.Commit(bg, "1", create); !errors.Is(err, sessionstore.ErrUnavailable) {
			t.Errorf("full: %v", err)
		}
		_, err = m.Delete(bg, "1")
		noError(t, err)
		_, err = m.Commit(bg, "new", create)
		noError(t, err)
		<-time.After(2 * time.Minute)
		for _, key := range []string{"a", "b"} {
			_, err := m.Commit(bg, key, create)
			noError(t, err)
		}
		if n := m.Len(); n != 3 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestMemoryCopies: the caller may reuse the bytes of a value, and the zero Memory is usable.
func TestMemoryCopies(t *testing.T) {
	var m sessionstore.Memory
	value := []byte("old")
	_, err := m.Commit(bg, "k", sessionstore.Change{Create: true, Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: "a", Value: value}}})
	noError(t, err)
	copy(value, "new")
	if rec, err := m.Load(bg, "k"); err != nil || len(rec.Fields) != 1 || string(rec.Fields[0].Value) != "old" {
		t.Errorf("%+v, %v", rec, err)
	}
}
