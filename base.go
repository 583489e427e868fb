package padlock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// This file has what all parts of a Locker use: its mutex, the count of its calls, its clock, its
// tokens and the identity of its store.

// unlock unlocks mu and delivers the events that were noted while it was held.
func (l *Locker) unlock() {
	if l.pending.first == nil {
		l.mu.Unlock()
		return
	}
	l.unlockAndDeliver()
}

// calls counts what Close waits for before it closes the store: acquires, releases, functions of Do
// and calls with a Key. Locker.mu guards it.
type calls struct {
	running int
	drained chan struct{} // closed when running becomes 0; nil unless Close waits
}

// begin counts a call. Exactly one end must follow.
func (c *calls) begin() { c.running++ }

// end counts the end of a call, and wakes Close after the last one.
func (c *calls) end() {
	c.running--
	if c.drained != nil && c.running == 0 {
		close(c.drained)
		c.drained = nil
	}
}

// beginCall begins a call, unless Close has begun. The caller holds mu.
func (l *Locker) beginCall() error {
	if l.closed {
		return ErrClosed
	}
	l.calls.begin()
	return nil
}

// endCalls ends n calls.
func (l *Locker) endCalls(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.calls.end()
	}
}

// sleep waits for d on the Locker's clock. If ctx ends first it returns the error of ctx.
func (l *Locker) sleep(ctx context.Context, d time.Duration) error {
	woken := make(chan struct{})
	stop := l.clock.AfterFunc(d, func() { close(woken) })
	defer stop()
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newToken returns 32 random bytes in base64, the form that Symfony's clients use.
func newToken() string {
	var raw [32]byte
	rand.Read(raw[:])
	var text [44]byte
	base64.StdEncoding.Encode(text[:], raw[:])
	return string(text[:])
}

// can reports whether the store has all parts of abilities that are given, so far as it implements
// their interfaces.
func (l *Locker) can(a driver.Ability) bool { return l.guarantees.Lacks&a == 0 }

// storeID returns the id of the store, or "" if the store has none or cannot be asked now.
func (l *Locker) storeID(ctx context.Context) string {
	if l.locations == nil || !l.can(driver.AbilityStoreID) {
		return ""
	}
	id, err := l.locations.StoreID(ctx)
	if err != nil {
		return ""
	}
	return id
}

// checkStore returns ErrInvalid if key belongs to another store. It returns nil if the id of either
// store is not known.
func (l *Locker) checkStore(ctx context.Context, key *Key) error {
	if key.store == "" {
		return nil
	}
	if id := l.storeID(ctx); id != "" && id != key.store {
		return fmt.Errorf("%w: key: it is for the store with id %s, and this one has id %s: it is another store, or its data was lost",
			ErrInvalid, key.store, id)
	}
	return nil
}
