package sessiontest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/session/sessionstore"
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

// A mortal store dies during one of its calls. Normally it dies before the call takes effect. If
// late is true, it dies after the call has taken effect, so that only the reply is lost. All later
// calls fail.
type mortal struct {
	sessionstore.BlobStore
	late bool

	mu   sync.Mutex
	left int // the number of calls until the store dies
	died bool
}

// perform calls f, unless the store is dead. If the store is dead, or dies in this call, perform
// returns an error.
func (m *mortal) perform(f func()) (dead error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	if m.left > 0 {
		f()
		return nil
	}
	if !m.died && m.late {
		f()
	}
	m.died = true
	return context.DeadlineExceeded
}

func (m *mortal) Get(ctx context.Context, key string) (b sessionstore.Blob, err error) {
	if dead := m.perform(func() { b, err = m.BlobStore.Get(ctx, key) }); dead != nil {
		return sessionstore.Blob{}, dead
	}
	return b, err
}

func (m *mortal) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (done bool, now *sessionstore.Blob, err error) {
	if dead := m.perform(func() { done, now, err = m.BlobStore.Swap(ctx, key, old, data, ttl) }); dead != nil {
		return false, nil, dead
	}
	return done, now, err
}

func (m *mortal) Remove(ctx context.Context, key string, old *sessionstore.Blob) (done bool, err error) {
	if dead := m.perform(func() { done, err = m.BlobStore.Remove(ctx, key, old) }); dead != nil {
		return false, dead
	}
	return done, err
}
