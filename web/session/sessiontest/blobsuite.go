package sessiontest

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A BlobHarness tells RunBlobs how to test one implementation of sessionstore.BlobStore.
type BlobHarness struct {
	// Open returns a handle on the store. The suite calls Open twice, as two processes would do. A
	// value that is written with one handle must be visible with the other handle.
	Open func() (sessionstore.BlobStore, error)
	// Expire is the shortest lifetime that the suite can measure; 0 means 150 ms.
	Expire time.Duration
	// Patience is how long a case may take; 0 means 30 s.
	Patience time.Duration
}

// RunBlobs checks that a store keeps the contract of sessionstore.BlobStore, each case in a
// subtest. To check the sessionstore.Store that sessionstore.FromBlobs returns, use Run.
func RunBlobs(t *testing.T, h BlobHarness) {
	s, cases, err := startBlobs(h)
	s.runAll(t, cases, err)
}

// CheckBlobs runs all cases and returns their failures.
func CheckBlobs(h BlobHarness) []Failure {
	s, cases, err := startBlobs(h)
	return s.checkAll(cases, err)
}

type blobCase struct {
	name string
	f    func(*blobCheck)
}

type blobCheck struct {
	*check
	a, b sessionstore.BlobStore
}

func startBlobs(h BlobHarness) (*suite, []testCase, error) {
	s := &suite{Harness: Harness{Expire: h.Expire, Patience: h.Patience}}
	s.setDefaults()
	a, err := h.Open()
	if err != nil {
		return s, nil, err
	}
	b, err := h.Open()
	var cases []testCase
	for _, c := range blobCases {
		cases = append(cases, testCase{c.name, func(k *check) { c.f(&blobCheck{k, a, b}) }})
	}
	return s, cases, err
}

// swap calls Swap, which must succeed.
func (c *blobCheck) swap(key string, old *sessionstore.Blob, data []byte, ttl time.Duration) sessionstore.Blob {
	done, _, err := c.a.Swap(c.ctx, key, old, data, ttl)
	if err != nil || !done {
		c.failf("Swap: %v, %v; want true", done, err)
	}
	return c.get(key)
}

func (c *blobCheck) get(key string) sessionstore.Blob {
	blob, err := c.b.Get(c.ctx, key)
	if err != nil {
		c.failf("Get: %v", err)
	}
	return blob
}
