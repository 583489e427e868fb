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
// The answer to a request that went through the leader proves more. When the leader handled the
// request, it knew everything that was in the follower's last report. Reports are half a tick
// apart, and a session timeout is at least two ticks. So the leader then knew of all requests that
// the session had sent at least a third of the timeout earlier.
type sessionClock struct {
	mu      sync.Mutex
	timeout time.Duration
	// proven is the time of the last request of which the leader certainly knew. The leader counts
	// the timeout from this time or from a later one.
	proven driver.Instant
	// marks are the times of requests that were sent after proven and that the leader has answered,
	// in order.
	marks []driver.Instant
}

// resumed is called when the servers have accepted the session for a new connection. The argument
// sent is a time before that. Followers ask the leader before they accept a session.
func (c *sessionClock) resumed(sent driver.Instant, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = timeout
	c.proven = max(c.proven, sent)
	c.marks = c.marks[:0]
}

// answered is called when the leader has answered a request. The argument is the time at which the
// request was sent.
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
