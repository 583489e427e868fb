package etcdstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// A leader stands still for longer than a lease, and its clients renew their leases at the next
// leader. When the old leader goes on, it may end them all the same. A holder learns of that when it
// asks.
func TestLeaderThatWasStopped(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	members := server.EtcdCluster(t, 3, nil)
	leader := leaderOf(t, members)
	var others []string
	for _, m := range members {
		if m != leader {
			others = append(others, m.Addr())
		}
	}
	s, other := mustOpen(t, others), mustOpen(t, others)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	renewed := func(i int) driver.Request {
		r := request("job"+strconv.Itoa(i), "holder")
		r.TTL = 10 * time.Second
		return r
	}
	const leases = 20
	var begun sync.WaitGroup
	for i := range leases {
		begun.Go(func() { holding(ctx, t, s, renewed(i)) })
	}
	begun.Wait()
	ends := request("nobody renews it", "holder")
	ends.TTL = 10 * time.Second
	takeSoon(t, s, ends)
	leader.Pause()
	waitSoon(t, other, ends.Name) // all leases would be over now
	leader.Resume()
	takeSoon(t, mustOpen(t, []string{leader.Addr()}), request("the old leader works again", "another"))
	lost := 0
	for i := range leases {
		r := renewed(i)
		_, err := other.Acquire(t.Context(), request(r.Name, "other"))
		_, known := s.Extend(t.Context(), r.Name, r.Token.Text(), 0)
		switch {
		case err == nil:
			lost++
			if !errors.Is(known, driver.ErrLost) {
				safety.TwoHold(t, "%s has another holder, and the first one gets %v", r.Name, known)
			}
		case !errors.Is(err, driver.ErrHeld) || known != nil:
			t.Errorf("%s: another try gets %v, and the holder %v", r.Name, err, known)
		}
	}
	t.Logf("the old leader ended %d of %d leases that were renewed", lost, leases)
}
