package redisstore

import (
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in Redis. It is safe for concurrent use.
type Store struct {
	config     config
	server     *redisconn.Server
	guarantees driver.Guarantees
	scripts    *scripts
	keys       keyer
	keep       time.Duration // how long a note outlives its lease
	clock      driver.Clock
	checks     serverChecks
	subscriber subscriber
	trips      roundTrips
	calls      storekit.Calls // its Work counts waits and clean-ups
}

var _ interface {
	driver.Store
	driver.Waiter
	fast.Passer
	fast.SlotTaker
	fast.BatchExtender
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	fast.Recorder
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

// String names the store. The name contains no secret.
func (s *Store) String() string { return "redis" }

// spread returns a random time between 0.5 and 1.5 times d. When a server stops, the connections of
// all processes break at the same instant. With equal pauses, all processes would also connect
// again at the same instant.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }
