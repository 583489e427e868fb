//go:build !linux

package supervise

import "time"

// moment is a point in time that can be sent to another process. A message contains both the time
// of day (Wall) and the time until then (Left). If the wall clock is set back, Wall comes too late.
// If the machine is suspended, Left ends too late. The receiver uses the earlier of the two, so
// that the job does not outlive its lock.
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

// arrived is called when this process has received m in a message. It records the time of the call.
func (m *moment) arrived() { m.since = time.Now() }

func (m *moment) left() time.Duration {
	return min(time.Until(m.Wall), m.Left-time.Since(m.since))
}
