package session

import (
	"fmt"
	"time"
)

// Mode says how the requests of a route use their session. Given to New it is the default of all
// routes; given to Manager.With it is the mode of one. The zero value is Delta.
type Mode uint8

// The modes.
const (
	// Delta saves what this request wrote, if what it had read and wrote is unchanged. The handler
	// runs without a lock.
	Delta Mode = iota
	// Exclusive locks the session from its first use to its commit.
	Exclusive
	// ReadOnly refuses writes with ErrReadOnly, except in Update. It never waits.
	ReadOnly
	// Consistent is ReadOnly that waits for an Exclusive request under way before it loads the
	// session. It holds the lock for the time of the load only.
	Consistent
	// LastWriteWins saves what this request wrote, even if other requests have written the same
	// keys. Other keys are not touched.
	LastWriteWins

	// optimistic is the mode of Update without locks: nothing must have changed since the load.
	optimistic
)

var modeNames = [...]string{"Delta", "Exclusive", "ReadOnly", "Consistent", "LastWriteWins", "optimistic"}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

func (m Mode) applyManager(c *config) { c.set.mode = m }
func (m Mode) applyRoute(s *settings) { s.mode = m }
func (m Mode) readOnly() bool         { return m == ReadOnly || m == Consistent }
func (m Mode) valid() bool            { return m < optimistic }
func (s *settings) needsLock() bool   { return s.mode == Exclusive || s.mode == Consistent }

// whole reports whether a commit depends on all of the session.
func (m Mode) whole() bool { return m == Exclusive || m == optimistic }

// settings are what holds for one request.
type settings struct {
	mode         Mode
	lockOptional bool // of Update: without the lock the mode is optimistic
	wait         time.Duration
}

// RouteOption configures a route: see Manager.With. It is an Option too: given to New it holds for
// all routes that do not say otherwise.
type RouteOption interface {
	Option
	applyRoute(*settings)
}

type maxWait time.Duration

func (w maxWait) applyManager(c *config) { c.set.wait = time.Duration(w) }
func (w maxWait) applyRoute(s *settings) { s.wait = time.Duration(w) }

// MaxWait bounds how long a request waits for its session's lock; the default is DefaultMaxWait. A
// request also waits no longer than 70 % of the time that it has left. With MaxWait(0) a request
// tries once.
func MaxWait(d time.Duration) RouteOption { return maxWait(d) }
