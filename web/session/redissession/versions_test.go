package redissession_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// TestNewerHash: a hash that a newer padlock wrote, which has the field f, is neither read nor
// changed, and can be deleted.
func TestNewerHash(t *testing.T) {
	t.Parallel()
	raw := dial(t, clientOption(startRedis(t).Addr()))
	store := newRedis(t, raw).Sessions()
	const key = "padlock:session:k"
	askServer(t, raw, "HSET", key, "v", "one", ":n", "1", "f", "2")
	askServer(t, raw, "PEXPIRE", key, "3600000")
	if _, err := store.Load(t.Context(), "k"); !errors.Is(err, session.ErrRefused) {
		t.Errorf("Load: %v", err)
	}
	for name, c := range map[string]sessionstore.Change{
		"put":     {Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: "n", Value: []byte("2")}}},
		"version": {Version: "one", Ops: []sessionstore.Op{{Kind: sessionstore.OpIncr, Key: "n", Delta: 1}}},
		"move":    {Move: sessionstore.Moved{To: sessionstore.KeyOf("other"), At: time.UnixMilli(1)}},
	} {
		if _, err := store.Commit(t.Context(), "k", c); !errors.Is(err, session.ErrRefused) {
			t.Errorf("Commit %s: %v", name, err)
		}
	}
	if _, err := store.Commit(t.Context(), "k", sessionstore.Change{Create: true}); !errors.Is(err, sessionstore.ErrExists) {
		t.Errorf("Commit create: %v", err)
	}
	noError(t, store.Touch(t.Context(), "k", time.Millisecond))
	if n := askServer(t, raw, "HGET", key, ":n"); n != "1" {
		t.Errorf("the value is %s now", n)
	}
	if ttl := askServer(t, raw, "PTTL", key); len(ttl) < 7 {
		t.Errorf("Touch changed the time to live: %s", ttl)
	}
	_, err := store.Delete(t.Context(), "k")
	noError(t, err)
	if _, err := store.Load(t.Context(), "k"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("after Delete: %v", err)
	}
}

// TestNewerValue: a value of a newer format counts as absent, and is overwritten only by a worker
// whose fence is at least as great.
func TestNewerValue(t *testing.T) {
	t.Parallel()
	raw := dial(t, clientOption(startRedis(t).Addr()))
	v := newRedis(t, raw).Values()
	_, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("v"), Fence: 1, Keep: time.Hour})
	noError(t, err)
	key := askServer(t, raw, "RANDOMKEY")
	if !strings.Contains(key, "value:") {
		t.Fatal(key)
	}
	askServer(t, raw, "SET", key, "77 v2 something\nnew")
	if e, err := v.Load(t.Context(), "k"); err != nil || e.Value != nil {
		t.Errorf("%q, %v", e.Value, err)
	}
	for _, fence := range []uint64{76, 77} {
		kept, err := v.Store(t.Context(), "k", stampede.Entry{Value: []byte("w"), Fence: fence, Fresh: time.Hour, Keep: time.Hour})
		if kept != (fence == 77) || err != nil {
			t.Errorf("fence %d over 77: %v, %v", fence, kept, err)
		}
	}
	if e, _ := v.Load(t.Context(), "k"); string(e.Value) != "w" {
		t.Errorf("made anew: %q", e.Value)
	}
}
