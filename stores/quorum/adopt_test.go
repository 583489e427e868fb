package quorum_test

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func swap(r driver.Request) driver.Request {
	n := request(r.Name)
	n.Replaces, n.Shared = r.Token, r.Shared
	return n
}

func TestAdopt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		c[0].clock.ahead.Store(int64(time.Hour))
		g := take(t, a, r)
		pass(time.Millisecond)
		b.these(down, 1, 2)
		n := swap(r)
		adopted := take(t, b, n)
		safety.Rises(t, adopted.Fence, g.Fence)
		if n := c.atLeast("n", adopted.Fence); n < 3 {
			t.Errorf("%d members have the fence of the hand-over", n)
		}
		if again := take(t, b, n); again.Fence != adopted.Fence {
			t.Errorf("fence %d, in a repeat %d", adopted.Fence, again.Fence)
		}
		wantErr(t, extend(t, a, r), driver.ErrLost)
		wantOutcome(t, b, n, driver.OutcomeReleased)
		_, err := b.Acquire(t.Context(), swap(n))
		wantErr(t, err, driver.ErrLost, driver.ErrUncertain)
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2) // holds of the exporter, which was cut off; they lapse
	})
}

// If the exporter has no quorum any more, the hand-over fails and leaves nothing of its own.
func TestAdoptOfALostHold(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		for _, srv := range c[:3] {
			srv.restart()
		}
		n := swap(r)
		_, err := a.Acquire(t.Context(), n)
		wantErr(t, err, driver.ErrLost, driver.ErrUncertain, driver.ErrHeld)
		pass(time.Second)
		for _, srv := range c {
			_, err := srv.now().Extend(t.Context(), n.Name, n.Token.Text(), 0)
			wantErr(t, err, driver.ErrLost)
		}
	})
}

// If members are silent, nobody knows which token has the lock. The members that handed over keep
// the new token, so that the same request, repeated, completes the hand-over. Until then requests
// with either token are uncertain.
func TestAdoptUnderSilence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		g := take(t, a, r)
		pass(time.Millisecond)
		b.these(silent, 3)
		b.these(fault{mute: true}, 4, 5)
		n := swap(r)
		_, err := b.Acquire(t.Context(), n)
		wantErr(t, err, driver.ErrUncertain, driver.ErrLost)
		wantErr(t, extend(t, a, r), driver.ErrLost) // 1, 2, 4 and 5 have swapped
		b.heal()
		adopted := take(t, b, n)
		safety.Rises(t, adopted.Fence, g.Fence)

		// A hand-over that the caller gives up leaves the lock to nobody, or to the exporter.
		m := swap(n)
		a.these(silent, 2, 3, 4)
		_, err = a.Acquire(t.Context(), m)
		wantErr(t, err, driver.ErrUncertain, driver.ErrLost)
		a.heal()
		a.Release(t.Context(), m.Name, m.Token.Text(), 0)
		pass(time.Second)
		if err := extend(t, b, n); err != nil {
			t.Errorf("the exporter has three of five: %v", err)
		}
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2, 3, 4, 5)

		a.these(down, 1, 2, 3, 4, 5)
		_, err = a.Acquire(t.Context(), swap(n))
		wantErr(t, err, driver.ErrUnavailable, driver.ErrUncertain)
		wantLive(t, b, n)
	})
}

// An adopted hold of this process keeps its mode.
func TestAdoptShared(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), reader("n")
		take(t, a, r)
		pass(time.Millisecond)
		for _, cl := range []*client{a, b, b} {
			n := swap(r)
			take(t, cl, n)
			pass(time.Millisecond)
			wantModes(t, c, "n", "sss")
			r = n
		}
	})
}

// A member that misses a hand-over keeps the old token. It is released there, so that the name is
// free everywhere when the new holder has released it.
func TestAdoptWithoutOneMember(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		old := request("n")
		take(t, a, old)
		pass(time.Second)
		r := request("n")
		r.Replaces = old.Token
		b.links[2].next("acquire", down)
		take(t, b, r)
		pass(time.Second)
		wantOutcome(t, b, r, driver.OutcomeReleased)
		pass(time.Second)
		wantHolders(t, c, "n")
	})
}
