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
	if out, err := a.Release(t.Context(), "n", r.Token, time.Minute); err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release: %v, %v", out, err)
	}
	_, err := b.Acquire(t.Context(), request("n"))
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Cooling {
		t.Errorf("during the cool-down: %v", err)
	}
}
