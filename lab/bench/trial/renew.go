//go:build linux

package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// Renewals holds n names and measures what a renewal costs. The time watched must be long enough
// for several renewals of each lock. A shorter one would see too few requests, because one request
// renews many locks. The names are taken evenly over the time until the first renewal, so that the
// renewals are spread too.
func Renewals(l *padlock.Locker, n int, ttl, watched time.Duration, m Meter) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ttl+Patience)
	defer cancel()
	start, cycle, name := time.Now(), ttl/3, NewName()
	for i := range n {
		time.Sleep(time.Until(start.Add(cycle * time.Duration(i) / time.Duration(n))))
		if _, err := l.Acquire(ctx, fmt.Sprint(name, ":", i), padlock.TTL(ttl)); err != nil {
			return nil, err
		}
	}
	return m.around(func() (f measure.Figures, renewed int, err error) {
		cpu, from := measure.Used(), l.Stats()
		time.Sleep(watched)
		to := l.Stats()
		if renewed = int(to.Renewals - from.Renewals); to.Lost > 0 || to.Held != n {
			err = fmt.Errorf("of %d holds %d are left: %+v", n, to.Held, to)
		}
		return measure.Figures{
			"renewals": float64(renewed), "client us": measure.Micros(measure.Used()-cpu) / float64(renewed),
		}, renewed, err
	})
}
