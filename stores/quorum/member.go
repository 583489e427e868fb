package quorum

import (
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
	waiter    driver.Waiter // this field and the next four are nil if the store lacks the ability
	admin     driver.Admin
	raiser    driver.FenceRaiser
	reporter  driver.Reporter
	locations driver.Places

	id        atomic.Pointer[string] // the id of the store, once it is known
	failing   atomic.Bool            // the last request for a lock, or to wait for one, got no answer
	avoided   atomic.Int64           // no Wait stands in its queue before this instant, because one has failed there
	took      atomic.Int64           // how long the last request for a lock took, in nanoseconds
	heard     atomic.Bool            // it has answered a request for a lock
	unsettled atomic.Int64           // how many releases have been sent to this member and have no known outcome
}

// maxUnsettled is the limit of releases with an unknown outcome at one member. At the limit, the
// member gets no new holds until some of the releases are settled. Such a member would only delay
// new holds.
const maxUnsettled = 256

func newMember(i int, store driver.Store) *member {
	m := &member{store: store, index: i, g: store.Guarantees()}
	m.waiter, _ = driver.As[driver.Waiter](store)
	m.admin, _ = driver.As[driver.Admin](store)
	m.raiser, _ = driver.As[driver.FenceRaiser](store)
	m.reporter, _ = driver.As[driver.Reporter](store)
	m.locations, _ = driver.As[driver.Places](store)
	return m
}

// inspects, lists, breaks and hasID report what the member can do with the methods of driver.Admin
// and driver.Places.
func (m *member) inspects() bool { return m.admin != nil && m.g.Lacks&driver.AbilityInspect == 0 }
func (m *member) lists() bool    { return m.admin != nil && m.g.Lacks&driver.AbilityList == 0 }
func (m *member) breaks() bool   { return m.admin != nil && m.g.Lacks&driver.AbilityBreak == 0 }
func (m *member) hasID() bool    { return m.locations != nil && m.g.Lacks&driver.AbilityStoreID == 0 }

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

// hasQueue reports whether Wait may stand in the queue of m. Under [All], every caller asks the
// first member first, so no other queue is of use.
func (s *Store) hasQueue(m *member) bool {
	return s.guarantees.Lease && m.waiter != nil && !m.failing.Load() && (s.rule == Majority || m.index == 0) &&
		s.clock.Now() >= driver.Instant(m.avoided.Load())
}
