package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/padlock-go/padlock/driver"
)

// member is one of the stores, with its abilities.
type member struct {
	store     driver.Store
	index     int
	g         driver.Guarantees
	waiter    driver.Waiter // this field and the next eight are nil if the store lacks the ability
	adviser   driver.QueueAdviser
	converter driver.Converter
	inspector driver.Inspector
	lister    driver.Lister
	breaker   driver.Breaker
	raiser    driver.FenceRaiser
	reporter  driver.Reporter
	ids       driver.Identifier

	id        atomic.Pointer[string] // the id of the store, once it is known
	failing   atomic.Bool            // the last request for a lock, or to wait for one, got no answer
	took      atomic.Int64           // how long the last request for a lock took, in nanoseconds
	unsettled atomic.Int64           // how many releases have been sent to this member and have no known outcome
}

// maxUnsettled is the limit of releases with an unknown outcome at one member. At the limit, the
// member gets no new holds until some of the releases are settled. Such a member would only delay
// new holds.
const maxUnsettled = 256

func newMember(i int, store driver.Store) *member {
	m := &member{store: store, index: i, g: store.Guarantees()}
	m.waiter = ability(store, func(w driver.Waiter) error { _, err := w.Wait(ended, driver.Request{}, false); return err })
	m.adviser = ability(store, func(driver.QueueAdviser) error { return nil })
	m.converter = ability(store, func(c driver.Converter) error { _, err := c.Convert(ended, driver.Request{}); return err })
	m.inspector = ability(store, func(i driver.Inspector) error { _, err := i.Inspect(ended, ""); return err })
	m.lister = ability(store, func(l driver.Lister) error { _, err := l.List(ended, ""); return err })
	m.breaker = ability(store, func(b driver.Breaker) error { _, err := b.Break(ended, "", 0); return err })
	m.raiser = ability(store, func(f driver.FenceRaiser) error { return f.RaiseFence(ended, "", "", driver.MaxFence) })
	m.reporter = ability(store, func(r driver.Reporter) error { _, err := r.Status(ended); return err })
	m.ids = ability(store, func(i driver.Identifier) error { _, err := i.StoreID(ended); return err })
	return m
}

// ability returns the store as the interface T, or nil if the store cannot do what T promises. If
// the store is a wrapper, the result may be the store inside it (see driver.As).
//
// A store may have the methods of T, but return errors.ErrUnsupported from each call. A composite
// store does so if its members lack the ability. To find out, ability calls one of the methods
// through the function probe. That call does nothing in any store, because its arguments are
// invalid and its context has ended.
func ability[T any](store driver.Store, probe func(T) error) (t T) {
	if t, ok := driver.As[T](store); ok && !errors.Is(probe(t), errors.ErrUnsupported) {
		return t
	}
	return t
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// leased returns the member's answer, or errNoLease if the member grants a hold without a lease
// although its holds have leases. Such a hold would seem to last for ever, and would end unnoticed.
func (m *member) leased(g driver.Grant, err error) (driver.Grant, error) {
	if err == nil && (g.TTL < 0 || g.TTL == 0 && m.g.Lease) {
		return driver.Grant{}, errNoLease
	}
	return g, err
}

// String names the member in errors and findings.
func (m *member) String() string { return fmt.Sprintf("member %d (%s)", m.index+1, m.g.Store) }

var (
	errUnsettled  = errors.New("an earlier request of this hold is not settled")
	errOverdue    = errors.New("no answer in time")
	errNotAwaited = errors.New("not waited for")
	errGivenUp    = fmt.Errorf("%w: the try was given up before", driver.ErrUnavailable)
	errLeftover   = errors.New("what an earlier try of this caller left there is not released yet")
	errNoLease    = fmt.Errorf("%w: its grant has no lease", driver.ErrUncertain)
	errCrowded    = fmt.Errorf("%w: it has too many unsettled releases", driver.ErrUnavailable)
)
