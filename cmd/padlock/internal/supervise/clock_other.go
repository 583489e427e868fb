//go:build !linux

package supervise

import "time"

// moment is a point in time that can be sent to another process. A message contains the moment in
// two forms: as a time of the wall clock, and as the time that is left. A wall clock that was set
// back makes the first form too late. A suspend of the machine makes the second form too late. A
// moment that is too late would let the job outlive its lock, so the receiver uses the earlier of
// the two.
type moment struct {
	Wall time.Time
	Left time.Duration

	since time.Time
}

var start = time.Now()

func now() time.Duration { return time.Since(start) }

// momentAfter adds a duration to the current time. For the duration Forever, it returns nil.
func momentAfter(left time.Duration) *moment {
	if left == Forever {
		return nil
	}
	return &moment{Wall: time.Now().Add(left).Round(0), Left: left, since: time.Now()}
}

func (m *moment) fields(f fields) {
	wall := m.Wall.UnixNano()
	f.number(&wall) // a writer sends wall; a reader sets wall to the number in the message
	m.Wall = time.Unix(0, wall)
	duration(f, &m.Left)
}

// arrived is called when this process has received m in a message. It records the time of the call.
func (m *moment) arrived() { m.since = time.Now() }

func (m *moment) left() time.Duration {
	return min(time.Until(m.Wall), m.Left-time.Since(m.since))
}
