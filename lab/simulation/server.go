package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Network says how fast the server and its connections are, and what they lose.
type Network struct {
	OneWay        time.Duration // how long a message travels
	Service       time.Duration // how long the server works on one request; it works on one at a time
	LoseReply     int           // if this is n, the connection breaks before each n-th reply; 0 means never
	LoseHandOvers int           // if this is n, each n-th message to a waiter is lost; 0 means none
}

// Usual is a network inside a data centre, and a server that answers 100,000 requests a second.
var Usual = Network{OneWay: 200 * time.Microsecond, Service: 10 * time.Microsecond}

// Server is the model of a lock server. It is safe for concurrent use.
type Server struct {
	net       Network
	guardTime time.Duration // how long a server gives no locks after it has lost its data
	began     time.Time

	mu         sync.Mutex
	life       *life // nil while the server is down
	silent     bool  // after a stop, the server gives no answer at all; otherwise it refuses connections
	locks      *memstore.Store
	guardUntil time.Time
	busyUntil  time.Time // when the server has done all requests that have arrived so far
	requests   int
	replies    int
	handOvers  int
	slots      []slot
}

// life is the time between a start of the server and its end.
type life struct {
	locks *memstore.Store
	ended chan struct{}      // closed when the server stops
	waits map[*queued]func() // for each waiter in a queue, the function that takes it out of the queue; guarded by Server.mu
}

// The server counts what happens in each unit of time. slotLength is the length of such a unit.
const slotLength = 100 * time.Millisecond

// slot counts what arrived in one unit of time.
type slot struct {
	requests int // requests that the running server got
	refused  int // connections that were refused because the server was down
	backlog  int // the most requests that waited for the server at one time
}

// NewServer starts a server. After the server has lost its data, it gives no locks for guardTime,
// which is the longest lease.
func NewServer(n Network, guardTime time.Duration) *Server {
	s := &Server{net: n, guardTime: guardTime, began: time.Now(), locks: memstore.New()}
	s.begin()
	return s
}

func (s *Server) begin() {
	s.life = &life{locks: s.locks, ended: make(chan struct{}), waits: make(map[*queued]func())}
}

// Stop ends the server as a crash does: all connections break, and the places in queues are gone.
// If silent is true, the machine of the server is gone: nothing answers, and clients notice only
// after a while that their connections are broken.
func (s *Server) Stop(silent bool) {
	s.mu.Lock()
	l := s.life
	s.life, s.silent = nil, silent
	if silent {
		time.AfterFunc(watchdog, func() { close(l.ended) })
	} else {
		close(l.ended)
	}
	waits := l.waits
	l.waits = nil
	s.mu.Unlock()
	for _, leave := range waits {
		leave()
	}
}

// watchdog is how long it takes until a waiting client notices that its server is silent.
// watchdogTick is the interval at which the client checks. Both are as in redisstore.
const (
	watchdog     = 2500 * time.Millisecond
	watchdogTick = 600 * time.Millisecond
)

// isSilent reports whether the server is silent.
func (s *Server) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life == nil && s.silent
}

// Start starts the server again, without its data if loseData is set.
func (s *Server) Start(loseData bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if loseData {
		s.locks = memstore.New()
		s.guardUntil = time.Now().Add(s.guardTime)
	}
	s.begin()
}

var (
	errRefused = fmt.Errorf("%w: connection refused", driver.ErrUnavailable)
	errGuard   = fmt.Errorf("%w: the server lost its data and gives no locks yet", driver.ErrUnavailable)
	errBroken  = fmt.Errorf("%w: the connection broke", driver.ErrUncertain)
)

// slotNow returns the counts of the present unit of time. The caller holds mu.
func (s *Server) slotNow() *slot {
	i := int(time.Since(s.began) / slotLength)
	for len(s.slots) <= i {
		s.slots = append(s.slots, slot{})
	}
	return &s.slots[i]
}

// arrive counts a request that arrives now, and returns the time until the server has done the
// request. The server does one request at a time, in order of arrival. arrive also returns the
// error with which a request fails:
//
//   - errRefused: the server is down.
//   - errBroken: the server is down and gives no answer at all.
//   - errGuard: the server gives no locks yet, and grants is true, so the request asks for a lock.
func (s *Server) arrive(grants bool) (*life, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slotNow()
	switch {
	case s.life == nil && s.silent:
		return nil, driver.MaxSilence, errBroken
	case s.life == nil:
		slot.refused++
		return nil, 0, errRefused
	}
	slot.requests++
	s.requests++
	now := time.Now()
	if s.busyUntil.Before(now) {
		s.busyUntil = now
	}
	slot.backlog = max(slot.backlog, int(s.busyUntil.Sub(now)/s.net.Service))
	s.busyUntil = s.busyUntil.Add(s.net.Service)
	if grants && now.Before(s.guardUntil) {
		return s.life, s.busyUntil.Sub(now), errGuard
	}
	return s.life, s.busyUntil.Sub(now), nil
}

// requestCount returns the number of requests that the running server got so far.
func (s *Server) requestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// losesReply decides whether the connection breaks before the next reply.
func (s *Server) losesReply() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies++
	return s.net.LoseReply > 0 && s.replies%s.net.LoseReply == 0
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
