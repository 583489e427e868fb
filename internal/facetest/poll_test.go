package facetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestFirstPauseOfAWait: after a lost reply a wait goes on within 20 ms. If the server is out of
// reach, the waits of many processes go on at very different times.
func TestFirstPauseOfAWait(t *testing.T) {
	for what, c := range map[string]struct {
		err   error
		apart time.Duration // the least difference between the pauses
		most  time.Duration
	}{
		"a lost reply":          {driver.ErrUncertain, time.Millisecond, 20 * time.Millisecond},
		"a server out of reach": {driver.ErrUnavailable, 100 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				h := acquire(t, newLocker(t, connect(s)), "job")
				least, most := time.Hour, time.Duration(0)
				for range 50 {
					r := connect(s)
					r.request("wait", func(_ context.Context, n int) error {
						if n > 0 {
							return nil
						}
						return c.err
					})
					l := newLocker(t, r)
					_, err := l.Acquire(context.Background(), "job", padlock.Wait(time.Second))
					if err == nil {
						t.Fatal("the name is held")
					}
					waits := r.log("wait")
					pause := waits[1].at.Sub(waits[0].at)
					least, most = min(least, pause), max(most, pause)
				}
				if least < 10*time.Millisecond || most >= c.most || most-least < c.apart {
					t.Errorf("the pauses are between %v and %v", least, most)
				}
				release(t, h)
			})
		})
	}
}
