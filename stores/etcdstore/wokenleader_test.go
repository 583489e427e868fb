package etcdstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// A leader stands still for longer than a lease, and its clients renew their leases at the next
// leader. When the old leader goes on, it ends no lease that was renewed.
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
	var holders sync.WaitGroup
	const ttl = 10 * time.Second
	names := make([]string, 20)
	for i := range names {
		names[i] = "job" + strconv.Itoa(i)
		r := request(names[i], "holder")
		r.TTL = ttl
		takeSoon(t, s, r)
		holders.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Extend(ctx, r.Name, r.Token, r.TTL); errors.Is(err, driver.ErrLost) {
					t.Errorf("the lease of %s was lost", r.Name)
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(ttl / 3):
				}
			}
		})
	}
	leader.Pause()
	<-time.After(ttl + 2*time.Second)
	leader.Resume()
	<-time.After(3 * time.Second) // for what the old leader may still do
	stop()
	holders.Wait()
	for _, name := range names {
		if _, err := other.Acquire(t.Context(), request(name, "other")); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s was renewed, and another try: %v", name, err)
		}
	}
}
