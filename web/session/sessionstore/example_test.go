package sessionstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// table is a BlobStore on a map. A store on a server needs the same four methods; each is one
// conditional request.
type table struct {
	mu   sync.Mutex
	rows map[string]string
}

func (t *table) Get(_ context.Context, key string) (sessionstore.Blob, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[key]
	if !ok {
		return sessionstore.Blob{}, sessionstore.ErrNotFound
	}
	return sessionstore.Blob{Data: []byte(row)}, nil
}

func (t *table) Swap(_ context.Context, key string, old *sessionstore.Blob, data []byte, _ time.Duration) (bool, *sessionstore.Blob, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[key]
	switch {
	case ok && (old == nil || string(old.Data) != row):
		return false, &sessionstore.Blob{Data: []byte(row)}, nil
	case !ok && old != nil:
		return false, nil, nil
	}
	t.rows[key] = string(data)
	return true, nil, nil
}

func (t *table) Remove(_ context.Context, key string, old *sessionstore.Blob) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[key]
	if !ok || old != nil && string(old.Data) != row {
		return false, nil
	}
	delete(t.rows, key)
	return true, nil
}

func (t *table) Touch(context.Context, string, time.Duration) error { return nil } // this table keeps values for ever

// A store of your own: a table that can swap one value for another keeps sessions. This one never
// ends a session, which sessiontest.RunBlobs would find.
func ExampleFromBlobs() {
	store := sessionstore.FromBlobs(&table{rows: make(map[string]string)}, sessionstore.Packed(), sessionstore.Traits{})
	sessions, err := session.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	s := sessions.Load(ctx, "")
	s.Put("user", "ann")
	fmt.Println(s.Commit(ctx))
	again := sessions.Load(ctx, s.Token())
	fmt.Println(session.Get[string](again, "user"))
	// Output:
	// <nil>
	// ann <nil>
}

// When the limit is reached, new sessions are refused and the others go on.
func ExampleMaxSessions() {
	ctx := context.Background()
	store := sessionstore.NewMemory(sessionstore.MaxSessions(1))
	for _, key := range []string{"first", "second"} {
		_, err := store.Commit(ctx, key, sessionstore.Change{Create: true, TTL: time.Hour})
		fmt.Println(key, errors.Is(err, sessionstore.ErrUnavailable))
	}
	// Output:
	// first false
	// second true
}
