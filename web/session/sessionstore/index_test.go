package sessionstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// indexes are the two kinds of Index of this package.
func indexes() map[string]sessionstore.Index {
	return map[string]sessionstore.Index{
		"memory": sessionstore.NewMemory(),
		"blobs":  sessionstore.BlobIndex(sessiontest.NewBlobs(), "u:"),
	}
}

// TestForgetKeepsNewKeys: for a minute after Note, the session may not have been written yet.
func TestForgetKeepsNewKeys(t *testing.T) {
	for name, x := range indexes() {
		synctest.Test(t, func(t *testing.T) {
			noError(t, x.Note(bg, "ann", "one", time.Hour))
			<-time.After(2 * time.Minute)
			noError(t, x.Note(bg, "ann", "two", time.Hour))
			noError(t, x.Forget(bg, "ann", []string{"one", "two"}))
			if keys, err := x.Noted(bg, "ann"); !slices.Equal(keys, []string{"two"}) || err != nil {
				t.Errorf("%s: %q, %v", name, keys, err)
			}
		})
	}
}

// TestIndexForgetsByItself: keys whose time is over do not pile up, though nobody calls Forget.
func TestIndexForgetsByItself(t *testing.T) {
	for name, x := range indexes() {
		synctest.Test(t, func(t *testing.T) {
			for i := range 10 {
				noError(t, x.Note(bg, "ann", fmt.Sprint(i), time.Hour))
				<-time.After(time.Hour)
			}
			keys, err := x.Noted(bg, "ann")
			if err != nil || len(keys) == 0 || len(keys) > 3 || keys[len(keys)-1] != "9" {
				t.Errorf("%s: %q, %v", name, keys, err)
			}
		})
	}
}

// TestNewerIndex: a list in a newer format is not read, and above all not written over.
func TestNewerIndex(t *testing.T) {
	const newer = "PLU\x02\x01\x00\x01k" // in the present format, this would be the key "k"
	blobs := sessiontest.NewBlobs()
	blobs.Put("u:ann", []byte(newer))
	x := sessionstore.BlobIndex(blobs, "u:")
	_, err := x.Noted(bg, "ann")
	for what, err := range map[string]error{
		"Noted": err, "Note": x.Note(bg, "ann", "one", 0), "Forget": x.Forget(bg, "ann", []string{"one"}),
	} {
		if !errors.Is(err, sessionstore.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, err := blobs.Get(bg, "u:ann"); string(now.Data) != newer || err != nil {
		t.Errorf("it was changed to %q, %v", now.Data, err)
	}
}

// countedSwaps counts the writes of a BlobStore.
type countedSwaps struct {
	*sessiontest.Blobs
	swaps int
}

func (c *countedSwaps) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	c.swaps++
	return c.Blobs.Swap(ctx, key, old, data, ttl)
}

// TestNoteAgain: sessions that PHP shares are noted with each request. Most of these calls write
// nothing, and a key is kept for as long as the last of them says.
func TestNoteAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := &countedSwaps{Blobs: sessiontest.NewBlobs()}
		x := sessionstore.BlobIndex(blobs, "u:")
		for range 60 {
			noError(t, x.Note(bg, "ann", "one", time.Hour))
			<-time.After(time.Second)
		}
		if blobs.swaps > 3 {
			t.Errorf("%d writes in a minute", blobs.swaps)
		}
		noError(t, x.Note(bg, "ann", "one", 3*time.Hour))
		<-time.After(time.Minute - time.Millisecond)
		noError(t, x.Forget(bg, "ann", []string{"one"}))
		<-time.After(3*time.Hour - time.Minute)
		if keys, err := x.Noted(bg, "ann"); len(keys) != 1 || err != nil {
			t.Errorf("%q, %v", keys, err)
		}
		for range 2 {
			noError(t, x.Note(bg, "ann", "one", 0))
		}
		<-time.After(100 * time.Hour)
		noError(t, x.Note(bg, "ann", "two", time.Hour))
		if keys, err := x.Noted(bg, "ann"); len(keys) != 2 || err != nil {
			t.Errorf("%q, %v", keys, err)
		}
	})
}
