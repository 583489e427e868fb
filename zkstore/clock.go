package zkstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A sessionClock knows until when the servers cannot have ended a session.
//
// The leader ends a session when it has heard nothing of it for the session timeout. A follower
// answers pings by itself, and tells its leader from time to time which sessions are alive. So a
// ping that a follower answered proves nothing: the follower may have been cut off from its leader.
// A request that went through the leader proves that the leader knew everything that the follower
// knew at its last report. Reports are half a tick apart, and a session timeout is two ticks or
// longer. So the answer to such a request proves that the leader knew of every request that was
// sent at least a third of the timeout earlier.
type sessionClock struct {
	mu      sync.Mutex
	timeout time.Duration
	proven  driver.Instant   // the leader counts the timeout from here or later
	marks   []driver.Instant // the times of later requests that the leader has answered, in order
}

// resumed records that the servers confirmed the session in the answer to a request to connect.
// Followers ask their leader before they confirm a session.
func (c *sessionClock) resumed(sent driver.Instant, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = timeout
	c.proven = max(c.proven, sent)
	c.marks = c.marks[:0]
}

// answered records that the leader answered a request.
func (c *sessionClock) answered(sent driver.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := 0
	for known < len(c.marks) && sent.Sub(c.marks[known]) >= c.timeout/3 {
		known++
	}
	if known > 0 {
		c.proven = max(c.proven, c.marks[known-1])
		c.marks = append(c.marks[:0], c.marks[known:]...)
	}
	if n := len(c.marks); n == 0 || sent.Sub(c.marks[n-1]) >= c.timeout/30 {
		c.marks = append(c.marks, sent)
	}
}

// endTime returns the instant from which the servers may have ended the session. It leaves a margin
// for clocks that run at different speeds.
func (c *sessionClock) endTime() driver.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proven.Add(c.timeout - c.timeout/100 - 2*time.Millisecond)
}

// length returns the session timeout.
func (c *sessionClock) length() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeout
}
