package redissession_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// TestDamagedSessionsEnd: a session that cannot be read is refused. It can still be deleted, and
// then the visitor gets a new session. What padlock did not write stays.
func TestDamagedSessionsEnd(t *testing.T) {
	t.Parallel()
	raw := dial(t, clientOption(startRedis(t).Addr()))
	r := newRedis(t, raw)
	for name, c := range map[string]struct {
		store sessionstore.Store
		write []string
		stays bool
	}{
		"hash, a string":           {r.Sessions(), []string{"SET", "padlock:session:k", "x"}, true},
		"hash, a sorted set":       {r.Sessions(), []string{"ZADD", "padlock:session:k", "1", "x"}, true},
		"hash, other fields":       {r.Sessions(), []string{"HSET", "padlock:session:k", "x", "1"}, true},
		"hash, a later version":    {r.Sessions(), []string{"HSET", "padlock:session:k", "v", "1", "f", "2"}, false},
		"hash, a damaged end":      {r.Sessions(), []string{"HSET", "padlock:session:k", "v", "1", "d", "soon"}, false},
		"hash, a broken tombstone": {r.Sessions(), []string{"HSET", "padlock:session:k", "v", "1", "m", "1 x"}, false},
		"blob, a hash":             {r.BlobSessions(), []string{"HSET", "padlock:blob:k", "x", "1"}, true},
		"blob, a text":             {r.BlobSessions(), []string{"SET", "padlock:blob:k", "some text"}, true},
		"blob, a damaged session":  {r.BlobSessions(), []string{"SET", "padlock:blob:k", "PLS\x01\x00\xff"}, false},
		"blob, a later version":    {r.BlobSessions(), []string{"SET", "padlock:blob:k", "PLS\x02\x00"}, false},
		"blob, a broken tombstone": {r.BlobSessions(), []string{"SET", "padlock:blob:k", sessionstore.TombstonePrefix}, false},
	} {
		askServer(t, raw, "DEL", c.write[1])
		askServer(t, raw, c.write...)
		if _, err := c.store.Load(t.Context(), "k"); !errors.Is(err, session.ErrRefused) {
			t.Errorf("%s: Load: %v", name, err)
		}
		if c.stays {
			staysAsItIs(t, raw, c.store, name, c.write[1])
			continue
		}
		// A broken tombstone does not tell where the session has moved. Delete reports that as an
		// error.
		if _, err := c.store.Delete(t.Context(), "k"); (err != nil) != strings.HasSuffix(name, "a broken tombstone") {
			t.Errorf("%s: Delete: %v", name, err)
		}
		if _, err := c.store.Load(t.Context(), "k"); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("%s: Load after Delete: %v", name, err)
		}
	}
}

// staysAsItIs checks that no verb of store changes or removes the value at key, the key of "k".
func staysAsItIs(t *testing.T, raw client, store sessionstore.Store, name, key string) {
	t.Helper()
	before := askServer(t, raw, "DUMP", key)
	change := sessionstore.Change{TTL: time.Hour, Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: "a", Value: []byte("b")}}}
	if _, err := store.Commit(t.Context(), "k", change); err == nil {
		t.Errorf("%s: Commit succeeds", name)
	}
	change.Create = true
	if _, err := store.Commit(t.Context(), "k", change); err == nil {
		t.Errorf("%s: Commit of a new session succeeds", name)
	}
	if _, err := store.Delete(t.Context(), "k"); !errors.Is(err, session.ErrRefused) {
		t.Errorf("%s: Delete: %v", name, err)
	}
	if name != "blob, a text" { // only a session that was read is touched
		_ = store.Touch(t.Context(), "k", time.Hour)
	}
	if after, ttl := askServer(t, raw, "DUMP", key), askServer(t, raw, "PTTL", key); after != before || ttl != "-1" {
		t.Errorf("%s: it was changed from %q to %q, and lives for %s", name, before, after, ttl)
	}
}
