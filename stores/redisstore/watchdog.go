package redisstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// watchedConn is a connection to a server. It tells the store's checks (serverchecks.go) when the
// connection has been made and when it has ended. It also ends the connection if the server is
// silent, that is, if something was written and nothing was read for silenceLimit after that.
//
// The client itself would notice a silent server by sending a PING every second, even on idle
// connections. A watchedConn sends nothing while it is idle. It uses the deadline for reads instead
// of a timer: a Read that waits for 600 ms calls tick. So the client must not set this deadline.
type watchedConn struct {
	net.Conn
	s   *Store
	dst string

	armed    atomic.Bool  // the deadline for reads is set
	owed     atomic.Int64 // the driver.Instant of the first write since the last read, or 0
	writes   atomic.Int64 // the number of writes
	commands atomic.Int64 // how many commands were written since the last tick; may be too high
	pong     atomic.Bool  // the probe was answered
	heard    atomic.Bool  // something was read

	// Only the goroutine that reads uses these fields:
	reads        int   // reads since the last tick
	partial      bool  // a read since the last tick may have returned a part of a reply
	many         bool  // the server may still owe a reply, although one was read
	probed       bool  // a probe was sent
	writesBefore int64 // the number of writes before the probe
}

var (
	commandBreak = []byte("\r\n*") // the text between two commands that are written together
	replyEnd     = []byte("\r\n")
)

// maxWholeReply is the length up to which a reply arrives in one piece. A longer reply needs
// several packets, and the network may fail between two of them.
const maxWholeReply = 1000

const (
	silenceLimit = 2500 * time.Millisecond
	tick         = 600 * time.Millisecond
)

// connectionChanged is called when a connection was made or lost. It makes the checks invalid, so
// that the servers are checked before the next request. It also makes each subscription check
// whether messages still arrive.
func (s *Store) connectionChanged() {
	s.checks.countTurn()
	s.subscriber.maybeDead()
}

// Close closes the connection. If the server has replied on the connection before, Close also
// makes the store's checks invalid, because the server may have restarted.
func (c *watchedConn) Close() error {
	if c.heard.Load() {
		c.s.connectionChanged()
	}
	return c.Conn.Close()
}

// SetDeadline sets the deadline for writes only.
func (c *watchedConn) SetDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(t) }

// SetReadDeadline does nothing. A watchedConn sets the deadline for reads by itself, so that the
// method tick is called when the deadline passes.
func (c *watchedConn) SetReadDeadline(time.Time) error { return nil }

func (c *watchedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	c.commands.Add(1 + int64(bytes.Count(b, commandBreak)))
	c.owed.CompareAndSwap(0, int64(c.s.clock.Now()))
	if c.armed.CompareAndSwap(false, true) {
		if err := c.Conn.SetReadDeadline(time.Now().Add(tick)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

func (c *watchedConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n > 0 {
			if !c.heard.Load() {
				c.heard.Store(true)
				c.s.connectionChanged()
			}
			c.owed.Store(0)
			c.reads++
			c.partial = c.partial || n > maxWholeReply || !bytes.HasSuffix(b[:n], replyEnd)
		}
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := c.tick(); err != nil {
			return 0, err
		}
	}
}

// tick is called every 600 ms while the connection is in use. It returns an error if the server is
// silent.
func (c *watchedConn) tick() error {
	owed, writes, reads := c.owed.Load(), c.writes.Load(), c.reads
	several := c.commands.Swap(0) > 1
	c.many = c.many || several || c.partial || owed != 0
	c.reads, c.partial = 0, false
	switch {
	case owed != 0 && c.s.clock.Now().Sub(driver.Instant(owed)) > silenceLimit:
		return errSilent
	case c.probed && writes > c.writesBefore+1:
		c.probed = false // other requests were written besides the probe
	case c.probed && c.pong.Load():
		c.probed, c.many = false, false
		return c.stopClock(writes)
	case !c.many && owed == 0:
		return c.stopClock(writes)
	case !c.probed && owed == 0 && reads == 0:
		// Some replies may still be missing, although one has arrived. The reply to a PING arrives
		// after all of them.
		c.probed, c.writesBefore = true, writes
		c.pong.Store(false)
		c.s.calls.Go(c.probe)
	}
	return c.Conn.SetReadDeadline(time.Now().Add(tick))
}

var errSilent = errors.New("the server does not answer")

// stopClock removes the deadline for reads, so that tick is not called again until something is
// written.
func (c *watchedConn) stopClock(writes int64) error {
	c.armed.Store(false)
	if err := c.Conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if c.writes.Load() != writes {
		// A Write came in between. If that Write saw that armed was set, it has set no deadline.
		c.armed.Store(true)
	}
	if c.armed.Load() {
		return c.Conn.SetReadDeadline(time.Now().Add(tick))
	}
	return nil
}

func (c *watchedConn) probe() {
	client := c.s.checks.client.Load()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.s.calls.Closing, silenceLimit)
	defer cancel()
	if node := client.Nodes()[c.dst]; node != nil {
		c.pong.Store(node.Do(ctx, node.B().Ping().Build()).Error() == nil)
	}
}
