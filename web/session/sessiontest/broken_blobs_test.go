package sessiontest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

func same(s sessionstore.Store) func() (sessionstore.Store, error) {
	return func() (sessionstore.Store, error) { return s, nil }
}

func TestBlobs(t *testing.T) {
	blobs := sessiontest.NewBlobs()
	sessiontest.RunBlobs(t, sessiontest.BlobHarness{Open: func() (sessionstore.BlobStore, error) { return blobs, nil }})
}

// brokenBlobs breaks one rule.
type brokenBlobs struct {
	*sessiontest.Blobs
	rule string
}

func (b brokenBlobs) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	blob, err := b.Blobs.Get(ctx, key)
	if b.rule == "does not tell the lifetime" {
		blob.TTL = 0
	}
	return blob, err
}

func (b brokenBlobs) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	switch {
	case b.rule == "writes over what was changed" && old != nil:
		if now, err := b.Blobs.Get(ctx, key); err == nil {
			old = &now
		}
	case b.rule == "writes where nothing was expected" && old == nil:
		b.Blobs.Remove(ctx, key, nil)
	case b.rule == "takes nil for NULL" && data == nil, b.rule == "takes empty for NULL" && len(data) == 0:
		return false, nil, errors.New("NOT NULL constraint failed")
	case b.rule == "cuts at a zero byte":
		data, _, _ = bytes.Cut(data, []byte{0})
	}
	done, now, err := b.Blobs.Swap(ctx, key, old, data, ttl)
	if b.rule == "does not say what is there" {
		now = nil
	}
	return done, now, err
}

func (b brokenBlobs) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	switch b.rule {
	case "removes what was changed":
		old = nil
	case "keeps what it removes":
		now, err := b.Blobs.Get(ctx, key)
		return err == nil && (old == nil || bytes.Equal(now.Data, old.Data)), nil
	}
	done, err := b.Blobs.Remove(ctx, key, old)
	return done || b.rule == "has always removed something", err
}

func (b brokenBlobs) Touch(ctx context.Context, key string, ttl time.Duration) error {
	now, err := b.Blobs.Get(ctx, key)
	switch {
	case b.rule == "touches tombstones" && err == nil:
		_, _, err := b.Blobs.Swap(ctx, key, &now, now.Data, ttl)
		return err
	case b.rule == "touch makes values" && err != nil:
		_, _, err := b.Blobs.Swap(ctx, key, nil, nil, ttl)
		return err
	case b.rule == "does not touch":
		return nil
	}
	return b.Blobs.Touch(ctx, key, ttl)
}

// ruleCases maps each rule that brokenBlobs can break to the case that must notice.
var ruleCases = map[string]string{
	"does not tell the lifetime":        "swap",
	"cuts at a zero byte":               "swap",
	"writes over what was changed":      "swap/changed",
	"writes where nothing was expected": "swap/changed",
	"does not say what is there":        "swap/changed",
	"takes nil for NULL":                "swap/empty",
	"takes empty for NULL":              "swap/empty",
	"removes what was changed":          "remove",
	"has always removed something":      "remove",
	"keeps what it removes":             "remove",
	"touches tombstones":                "touch/tombstone",
	"touch makes values":                "touch",
	"does not touch":                    "touch",
}

// TestBlobSuiteNotices runs the suite over stores that break one rule each. Most
// of its time is waiting, so all run at once.
func TestBlobSuiteNotices(t *testing.T) {
	var mu sync.Mutex
	found := make(map[string][]sessiontest.Failure)
	var wg sync.WaitGroup
	for rule := range ruleCases {
		wg.Go(func() {
			broken := brokenBlobs{sessiontest.NewBlobs(), rule}
			failures := sessiontest.CheckBlobs(sessiontest.BlobHarness{Patience: 2 * time.Second, Expire: 40 * time.Millisecond,
				Open: func() (sessionstore.BlobStore, error) { return broken, nil }})
			mu.Lock()
			defer mu.Unlock()
			found[rule] = failures
		})
	}
	wg.Wait()
	for rule, wanted := range ruleCases {
		t.Run(strings.ReplaceAll(rule, " ", "-"), func(t *testing.T) {
			if !slices.ContainsFunc(found[rule], func(f sessiontest.Failure) bool { return f.Case == wanted }) {
				t.Errorf("the case %s did not notice; others said %v", wanted, found[rule])
			}
		})
	}
}

// lastMove is a broken store that records moves separately from sessions. It reports the last move
// that was tried, even if another one succeeded.
type lastMove struct {
	sessionstore.Store
	meet func(key string)
	mu   sync.Mutex
	last map[string]sessionstore.Moved
}

func (s *lastMove) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if c.Move.To.Text() != "" {
		s.mu.Lock()
		s.last[key] = c.Move
		s.mu.Unlock()
		s.meet(key)
		s.mu.Lock()
		last := s.last[key].To.Text() == c.Move.To.Text() && s.last[key].At.Equal(c.Move.At)
		s.mu.Unlock()
		if last { // this move commits too late
			<-time.After(20 * time.Millisecond)
		}
	}
	return s.Store.Commit(ctx, key, c)
}

func (s *lastMove) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	r, err := s.Store.Load(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[key]; ok && r.Moved.To.Text() != "" {
		r.Moved = last
	}
	return r, err
}

func TestSuiteNoticesTheLastMove(t *testing.T) {
	server.Thorough(t)
	broken := &lastMove{Store: sessionstore.NewMemory(), meet: meeting(), last: make(map[string]sessionstore.Moved)}
	found := sessiontest.Check(sessiontest.Harness{Open: same(broken), Patience: 4 * time.Second, Expire: 40 * time.Millisecond})
	if !slices.ContainsFunc(found, func(f sessiontest.Failure) bool { return f.Case == "moved/two" }) {
		t.Errorf("the case moved/two did not notice; others said %v", found)
	}
}
