//go:build !linux

package supervise

import "time"

// moment is a point in time that another process can use. It is given in two ways: as a time of the
// wall clock, and as a duration that begins when the process receives the moment. The earlier of
// the two counts. The wall clock may be set back, and the duration does not count the time while
// the machine is suspended.
type moment struct {
	Wall time.Time
	Left time.Duration

	since time.Time
}

var start = time.Now()

func now() time.Duration { return time.Since(start) }

// until returns the moment at which the given time is over, or nil for Forever.
func until(left time.Duration) *moment {
	if left == Forever {
		return nil
	}
	return &moment{Wall: time.Now().Add(left).Round(0), Left: left, since: time.Now()}
}

func (m *moment) fields(f fields) {
	wall := m.Wall.UnixNano() // if m is being read, this number is meaningless, and f replaces it
	f.number(&wall)
	m.Wall = time.Unix(0, wall)
	duration(f, &m.Left)
}

// arrived records the time at which the moment was received.
func (m *moment) arrived() { m.since = time.Now() }

func (m *moment) left() time.Duration {
	return min(time.Until(m.Wall), m.Left-time.Since(m.since))
}
