package zkstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A sessionClock computes a time until which the servers certainly keep a session.
//
// The leader of the servers ends a session if it has heard nothing of the session for the session
// timeout. But the client is connected to a follower, and the follower answers pings by itself. So
// the answer to a ping proves nothing: the follower may be cut off from the leader.
//
// The leader's answer to a request proves that the follower is not cut off. Followers tell the
// leader every half tick which sessions are alive. A session timeout is at least two ticks. So a
// follower that is not cut off reports each sign of life within a third of the timeout.
type sessionClock struct {
	mu      sync.Mutex
	timeout time.Duration
	// The leader knows that the session was alive at the time provenAt. From then on, the leader
	// keeps the session for at least one timeout.
	provenAt driver.Instant
	// marks are the times at which answered requests were sent, in order. The follower may not have
	// reported yet that the session was alive at these times. A mark becomes provenAt when the
	// leader answers a request that was sent at least a third of the timeout later.
	marks []driver.Instant
}

// resumed is called after a server has accepted the session for a new connection. openedAt is when
// the connection was opened. A follower asks the leader before it accepts a session. So the leader
// knows that the session was alive after openedAt.
func (c *sessionClock) resumed(openedAt driver.Instant, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = timeout
	c.provenAt = max(c.provenAt, openedAt)
	c.marks = c.marks[:0]
}

// answered is called when the leader has answered a request. sent is when the request was sent.
func (c *sessionClock) answered(sent driver.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := 0
	for known < len(c.marks) && sent.Sub(c.marks[known]) >= c.timeout/3 {
		known++
	}
	if known > 0 {
		c.provenAt = max(c.provenAt, c.marks[known-1])
		c.marks = append(c.marks[:0], c.marks[known:]...)
	}
	if n := len(c.marks); n == 0 || sent.Sub(c.marks[n-1]) >= c.timeout/30 {
		c.marks = append(c.marks, sent)
	}
}

// endTime returns the earliest time at which the servers may have ended the session. It leaves a
// margin, because clocks run at different speeds.
func (c *sessionClock) endTime() driver.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.provenAt.Add(c.timeout - c.timeout/100 - 2*time.Millisecond)
}

// length returns the session timeout.
func (c *sessionClock) length() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeout
}
