package advisory

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// lookEvery is how often a connection on which no statement runs is checked for its end.
const lookEvery = 100 * time.Millisecond

// A Link is what the connections to all servers have in common. A Session embeds it. A Link runs
// one statement at a time, and notices the end of the connection.
type Link struct {
	bound context.Context // canceled when the connection ends
	end   context.CancelCauseFunc
	mu    sync.Mutex  // held while a statement runs, or Watch looks
	busy  atomic.Bool // a statement runs
	last  time.Time   // of the last reply; guarded by mu
	every time.Duration
	// socket is the network connection, or nil if it is not known. Its deadline limits a statement,
	// and its end ends one. That costs less than a context, for which a driver needs a goroutine.
	socket net.Conn
}

// NewLink returns the Link of a new connection. The socket may be nil.
func NewLink(c *Config, socket net.Conn) *Link {
	l := &Link{last: time.Now(), every: c.pingEvery(), socket: socket}
	l.bound, l.end = context.WithCancelCause(context.Background())
	if socket != nil {
		context.AfterFunc(l.bound, func() { socket.Close() })
	}
	return l
}

// Bound implements a part of Session.
func (l *Link) Bound() context.Context { return l.bound }

// Alive reports whether the connection has not ended.
func (l *Link) Alive() bool { return l.bound.Err() == nil }

// Lose implements a part of Session.
func (l *Link) Lose(err error) {
	l.end(fmt.Errorf("%w: the connection to the server ended: %w", driver.ErrLost, err))
}

// Do calls f, which sends a statement. The context of f ends after limit, and when the connection
// ends. If limit is 0, there is no limit. If f returns a storekit.NoReply, the connection is lost.
// Any other error means that the server has refused the statement.
func (l *Link) Do(limit time.Duration, f func(ctx context.Context) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Alive() {
		return &storekit.NoReply{Err: context.Cause(l.bound), Unsent: true}
	}
	ctx, cancel := l.limit(limit)
	defer cancel()
	l.busy.Store(true)
	defer l.busy.Store(false)
	err := f(ctx)
	if noReply, _ := storekit.IsNoReply(err); noReply {
		l.Lose(err)
		return err
	}
	l.last = time.Now()
	return err
}

func (l *Link) limit(limit time.Duration) (context.Context, context.CancelFunc) {
	switch {
	case l.socket != nil && limit > 0:
		l.socket.SetDeadline(time.Now().Add(limit))
		return context.Background(), func() {}
	case l.socket != nil:
		l.socket.SetDeadline(time.Time{})
		return context.Background(), func() {}
	case limit > 0:
		return context.WithTimeout(l.bound, limit)
	}
	return context.WithCancel(l.bound)
}

// Watch runs until the connection has ended. While no statement runs, Watch calls look ten times a
// second, which returns an error if the connection has ended. If the server has been silent for a
// quarter of the LossDelay, Watch calls ping, which sends a statement.
func (l *Link) Watch(look, ping func() error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for l.Alive() {
		select {
		case <-l.bound.Done():
			return
		case <-ticker.C:
		}
		if !l.mu.TryLock() {
			continue // a statement is running, and it has a limit of its own
		}
		if l.socket != nil { // a driver cannot look at a socket whose deadline has passed
			l.socket.SetDeadline(time.Time{})
		}
		silent, err := time.Since(l.last) > l.every, look()
		l.mu.Unlock()
		switch {
		case err != nil:
			l.Lose(err)
		case silent:
			_ = ping() // an error ends the connection
		}
	}
}

// Close ends the connection, and with it a statement that is running. Then it calls hangUp, which
// closes the connection and may be called several times. It takes leave of the server unless a
// statement is running.
func (l *Link) Close(hangUp func()) {
	closed := fmt.Errorf("%w: the connection to the server was closed", driver.ErrClosed)
	if l.busy.Load() {
		l.end(closed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hangUp()
	l.end(closed)
}
