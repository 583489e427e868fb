package zkstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A sessionClock computes a time until which the servers certainly keep a session.
//
// The leader of the servers ends a session if it has heard nothing of the session for the session
// timeout. But a client is connected to a follower, which answers pings by itself. It reports to
// the leader only from time to time which sessions are alive. So the answer to a ping proves
// nothing: the follower may have been cut off from the leader.
//
// The answer to a request that went through the leader proves more. Followers send a report every
// half tick, and a session timeout is at least two ticks. So whatever a session sends, the follower
// reports it within a third of the timeout. If the leader then answers a request, it has heard of
// everything that the session sent more than a third of the timeout before that request.
type sessionClock struct {
	mu      sync.Mutex
	timeout time.Duration
	// provenAt is when the session sent a certain request. The leader has heard of that request. So
	// it ends the session at the earliest one timeout after provenAt.
	provenAt driver.Instant
	// marks are the times at which later requests were sent, in order. The leader has answered
	// these requests. But the follower's report about them may not have reached the leader yet.
	marks []driver.Instant
}

// resumed is called after the servers have accepted the session for a new connection. sent is when
// the connection was opened. A follower asks the leader before it accepts a session, so the leader
// knows that the session was alive after sent.
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
