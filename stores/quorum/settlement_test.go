package quorum_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// This file has tests for the rows of settlement's table that lead to "given up".

// unwilling is a member that returns ErrInvalid for every release.
type unwilling struct {
	*memstore.Store
	asked atomic.Int64
}

func (u *unwilling) Release(context.Context, string, string, time.Duration) (driver.Outcome, error) {
	u.asked.Add(1)
	return driver.OutcomeGone, driver.ErrInvalid
}

func TestInvalidReleaseIsGivenUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, c cluster, open func() *client) {
		others, m := open().links, &unwilling{Store: memstore.New()}
		s, err := quorum.New(quorum.Majority, []driver.Store{others[0], others[1], m})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := request("n")
		take(t, s, r)
		pass(time.Millisecond)
		wantOutcome(t, s, r, driver.OutcomeReleased)
		pass(time.Minute)
		if n := m.asked.Load(); n != 1 {
			t.Errorf("the member was asked %d times", n)
		}
	})
}

func TestReleaseIsGivenUpWhenTheLeaseIsOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		a.links[2].set(on("release", lostCall))
		wantOutcome(t, a, r, driver.OutcomeReleased)
		pass(r.TTL / 2)
		if n := a.links[2].count("release"); n < 2 {
			t.Errorf("member 3 was asked %d times before the lease was over", n)
		}
		pass(r.TTL)
		asked := a.links[2].count("release")
		pass(time.Minute)
		if n := a.links[2].count("release"); n != asked {
			t.Errorf("member 3 was asked again %d times after the lease was over", n-asked)
		}
	})
}

// TestRefusedMemberIsNotReleased: a release that comes while a member has not answered yet waits
// for the answer. If the member then refuses the hold, it is asked to release nothing: it would
// remember the token.
func TestRefusedMemberIsNotReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		if _, err := c[2].now().Acquire(t.Context(), request("n")); err != nil {
			t.Fatal(err)
		}
		a.links[2].set(on("acquire", slow(20*time.Millisecond)))
		take(t, a, r)
		wantOutcome(t, a, r, driver.OutcomeReleased)
		pass(time.Minute)
		if n := a.links[2].count("release"); n != 0 {
			t.Errorf("member 3, which refused the hold, was asked %d times to release it", n)
		}
		if n := a.links[1].count("release"); n != 1 {
			t.Errorf("member 2, which granted the hold, was asked %d times to release it", n)
		}
	})
}
