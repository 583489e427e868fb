package zkstore

import "time"

// ReserveFor sets how long a lock stays reserved for the waiter that it was granted to. In a test
// that uses the reservation, it must not end because the machine is slow.
func ReserveFor(d time.Duration) Option { return func(c *config) { c.reserveFor = d } }
