package httpstore

import "time"

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// The server reports how long a client may work: the lease less the drift of two clocks and the
// time to stop in. The caller of this store takes both off, too. So the store asks for a lease that
// is longer by as much. The differences, 1 % + 2 ms and 50 ms or a tenth, are those of package
// padlock. If a server takes off more, the caller only gets a shorter lease.
const (
	drift    = 2 * time.Millisecond
	timeStop = 50 * time.Millisecond
)

// lease returns the lease in milliseconds of which ttl is left.
func lease(ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	short, long := (ttl+drift)*100/89, (ttl+drift+timeStop)*100/99
	return millis(min(short, long) + time.Millisecond)
}

// longest returns the longest time that is left of a lease, in whole seconds if it has some.
func longest(most time.Duration) time.Duration {
	left := most*99/100 - drift - timeStop - 2*time.Millisecond
	if left > 10*time.Second {
		left = left.Truncate(time.Second)
	}
	return max(left, 1) // 0 would be no limit
}
