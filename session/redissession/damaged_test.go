package redissession_test

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/sessionstore"
)

// TestDamagedSessionsEnd: a session that cannot be read is refused. It can still be deleted, and
// then the visitor gets a new session.
func TestDamagedSessionsEnd(t *testing.T) {
	t.Parallel()
	raw := dial(t, clientOption(startRedis(t).Addr()))
	r := newRedis(t, raw)
	for name, c := range map[string]struct {
		store sessionstore.Store
		write []string
	}{
		"hash, a string":           {r.Sessions(), []string{"SET", "padlock:session:k", "x"}},
		"hash, other fields":       {r.Sessions(), []string{"HSET", "padlock:session:k", "x", "1"}},
		"blob, a hash":             {r.BlobSessions(), []string{"HSET", "padlock:blob:k", "x", "1"}},
		"blob, a later version":    {r.BlobSessions(), []string{"SET", "padlock:blob:k", "PLS\x02\x00"}},
		"blob, a broken tombstone": {r.BlobSessions(), []string{"SET", "padlock:blob:k", sessionstore.TombstonePrefix}},
	} {
		askServer(t, raw, "DEL", c.write[1])
		askServer(t, raw, c.write...)
		if _, err := c.store.Load(t.Context(), "k"); !errors.Is(err, session.ErrRefused) {
			t.Errorf("%s: Load: %v", name, err)
		}
		// A broken tombstone does not tell where the session has moved. Delete reports that as an
		// error.
		if _, err := c.store.Delete(t.Context(), "k"); (err != nil) != (name == "blob, a broken tombstone") {
			t.Errorf("%s: Delete: %v", name, err)
		}
		if _, err := c.store.Load(t.Context(), "k"); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("%s: Load after Delete: %v", name, err)
		}
	}
}
