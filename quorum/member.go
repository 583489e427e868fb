package quorum

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/padlock-go/padlock/driver"
)

// member is one of the stores, and what it can do.
type member struct {
	store     driver.Store
	index     int
	g         driver.Guarantees
	waiter    driver.Waiter // nil if it cannot; so with those that follow
	converter driver.Converter
	inspector driver.Inspector
	lister    driver.Lister
	breaker   driver.Breaker
	raiser    driver.FenceRaiser
	reporter  driver.Reporter

	unsettled atomic.Int64 // releases that it has not answered for certain
}

// A member with that many unsettled releases is out of order. It is left out
// of new holds until it has settled some, so that it costs nothing more.
const maxUnsettled = 256

func newMember(i int, store driver.Store) *member {
	m := &member{store: store, index: i, g: store.Guarantees()}
	m.waiter, _ = store.(driver.Waiter)
	m.converter, _ = store.(driver.Converter)
	m.inspector, _ = store.(driver.Inspector)
	m.lister, _ = store.(driver.Lister)
	m.breaker, _ = store.(driver.Breaker)
	m.raiser, _ = store.(driver.FenceRaiser)
	m.reporter, _ = store.(driver.Reporter)
	return m
}

// String tells members apart in errors and findings.
func (m *member) String() string { return fmt.Sprintf("member %d (%s)", m.index+1, m.g.Store) }

var (
	errUnsettled = errors.New("an earlier request of this hold is not settled")
	errOverdue   = errors.New("no answer in time")
	errGivenUp   = fmt.Errorf("%w: the try was given up before", driver.ErrUnavailable)
	errLeftover  = errors.New("what an earlier try of this caller left there is not released yet")
	errCrowded   = fmt.Errorf("%w: it has too many unsettled releases", driver.ErrUnavailable)
)
