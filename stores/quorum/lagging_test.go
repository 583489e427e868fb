package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// lagging is a member that a release reaches only when arrive is closed.
type lagging struct {
	*memstore.Store
	arrive chan struct{}
}

func (l lagging) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	<-l.arrive
	return l.Store.Release(ctx, name, token, keep)
}

// TestCoolDownBeforeTheLastMember: a name that a majority keeps free has no holder, although one
// member has not heard of the release yet.
func TestCoolDownBeforeTheLastMember(t *testing.T) { synctest.Test(t, coolDownBeforeTheLastMember) }

func coolDownBeforeTheLastMember(t *testing.T) {
	var ours, theirs []driver.Store
	arrive := make(chan struct{})
	for i := range 5 {
		m := memstore.New()
		theirs = append(theirs, m.Open())
		if i == 0 {
			ours = append(ours, lagging{m, arrive})
		} else {
			ours = append(ours, m)
		}
	}
	a, b := of(t, ours), of(t, theirs)
	t.Cleanup(func() { close(arrive) })
	r := request("n")
	r.Holder = driver.Holder{Host: "host.example", PID: 4711}
	take(t, a, r)
	if out, err := a.Release(t.Context(), "n", r.Token.Text(), time.Minute); err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release: %v, %v", out, err)
	}
	_, err := b.Acquire(t.Context(), request("n"))
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Cooling {
		t.Errorf("during the cool-down: %v", err)
	}
}

// cramped is a member that has no room for a cool-down.
type cramped struct{ *memstore.Store }

func (c cramped) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	out, err := c.Store.Release(ctx, name, token, 0)
	if keep > 0 && err == nil && out == driver.OutcomeReleased {
		err = driver.ErrUnavailable
	}
	return out, err
}

// TestMembersWithoutRoom: members that have no room for the cool-down release the hold. The release
// says so, unless enough other members keep the cool-down.
func TestMembersWithoutRoom(t *testing.T) {
	for full := range 4 {
		synctest.Test(t, func(t *testing.T) {
			var members, theirs []driver.Store
			for i := range 3 {
				m := memstore.New()
				theirs = append(theirs, m.Open())
				if i < full {
					members = append(members, cramped{m})
				} else {
					members = append(members, m)
				}
			}
			a, b := of(t, members), of(t, theirs)
			r := request("n")
			take(t, a, r)
			out, err := a.Release(t.Context(), "n", r.Token.Text(), time.Minute)
			if keeps := full < 2; out != driver.OutcomeReleased || (err == nil) != keeps || err != nil && !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%d of 3 members without room: %v, %v", full, out, err)
			}
			if out, err := a.Release(t.Context(), "n", r.Token.Text(), time.Minute); out != driver.OutcomeGone || err != nil {
				t.Errorf("a second Release: %v, %v", out, err)
			}
			if _, err := b.Acquire(t.Context(), request("n")); errors.Is(err, driver.ErrHeld) != (full < 2) {
				t.Errorf("%d of 3 members without room: then another Acquire: %v", full, err)
			}
		})
	}
}
