package zkstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A sessionClock computes until when a session certainly exists at the servers.
//
// The leader ends a session when it has heard nothing of the session for the session timeout. A
// follower answers pings by itself, and reports to the leader from time to time which sessions are
// alive. So the answer to a ping proves nothing: the follower may have been cut off from the
// leader.
//
// The answer to a request that went through the leader proves more: the leader then knew everything
// that was in the follower's last report. Reports are half a tick apart, and a session timeout is
// at least two ticks. So the leader knew of every request that was sent at least a third of the
// timeout before the answered one.
type sessionClock struct {
	mu      sync.Mutex
	timeout time.Duration
	proven  driver.Instant   // the leader counts the timeout from here or later
	marks   []driver.Instant // the times of later requests that the leader has answered, in order
}

// resumed records that the servers accepted the session for a new connection. Followers ask the
// leader before they accept a session.
func (c *sessionClock) resumed(sent driver.Instant, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = timeout
	c.proven = max(c.proven, sent)
	c.marks = c.marks[:0]
}

// answered records that the leader has answered a request that was sent at the given time.
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

// endTime returns the earliest time at which the servers may have ended the session. It leaves a
// margin, because clocks run at different speeds.
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
