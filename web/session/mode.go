package session

import (
	"fmt"
	"time"
)

// Mode says how the requests of a route use their session. A Mode given to New is the default of
// all routes; one given to Manager.With applies to that route. The zero value is Delta.
type Mode uint8

// The modes.
const (
	// Delta saves the keys that this request wrote. If the request had read some of these keys,
	// they must be unchanged. The handler runs without a lock.
	Delta Mode = iota
	// Exclusive locks the session from its first use to its commit.
	Exclusive
	// ReadOnly refuses writes with ErrReadOnly, except in Update. It never waits.
	ReadOnly
	// LastWriteWins saves the keys that this request wrote, even if other requests have written
	// them too. It does not touch other keys.
	LastWriteWins

	// optimistic is the mode of Update without locks. Its commit fails if anything that was read
	// has changed since the load.
	optimistic
)

var modeNames = [...]string{"Delta", "Exclusive", "ReadOnly", "LastWriteWins", "optimistic"}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

func (m Mode) applyManager(c *config) { c.set.mode = m }
func (m Mode) applyRoute(s *settings) { s.mode = m }
func (m Mode) readOnly() bool         { return m == ReadOnly }
func (m Mode) valid() bool            { return m < optimistic }
func (s *settings) needsLock() bool   { return s.mode == Exclusive }

// dependsOnAll reports whether a commit depends on everything that was read.
func (m Mode) dependsOnAll() bool { return m == Exclusive || m == optimistic }

// settings apply to one request.
type settings struct {
	mode         Mode
	lockOptional bool // for Update: if the lock cannot be taken, the mode becomes optimistic
	wait         time.Duration
}

// RouteOption configures a route: see Manager.With. A RouteOption is an Option, too: if it is given
// to New, it applies to every route for which With does not set the same thing.
type RouteOption interface {
	Option
	applyRoute(*settings)
}

type maxWait time.Duration

func (w maxWait) applyManager(c *config) { c.set.wait = time.Duration(w) }
func (w maxWait) applyRoute(s *settings) { s.wait = time.Duration(w) }

// MaxWait bounds how long a request waits for its session's lock. The default is DefaultMaxWait. A
// request also waits no longer than 70 % of the time that is left to answer it. With MaxWait(0) a
// request tries once. The time is 0 or more; otherwise New returns an error, and Manager.With
// panics.
func MaxWait(d time.Duration) RouteOption { return maxWait(d) }
