package etcdstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// A quota is a server that can be filled up.
type quota struct {
	*server.Server
	c *clientv3.Client
}

func withQuota(t testing.TB) *quota {
	srv := server.Etcd(t, server.EtcdOptions{Quota: 4 << 20})
	return &quota{srv, newClient(t, srv.Addr())}
}

// full writes values until the server has the alarm NOSPACE. With false it makes room again.
func (q *quota) full(on bool) error {
	ctx := context.Background()
	if on {
		for {
			if _, err := q.c.Put(ctx, "big", strings.Repeat("x", 1<<20)); err != nil {
				if strings.Contains(err.Error(), "space exceeded") {
					return nil
				}
				return err
			}
		}
	}
	reply, err := q.c.Delete(ctx, "big")
	if err == nil {
		_, err = q.c.Compact(ctx, reply.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = q.c.Defragment(ctx, q.Addr())
	}
	if err == nil {
		_, err = q.c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	return err
}

func (q *quota) mustBe(t testing.TB, full bool) {
	t.Helper()
	if err := q.full(full); err != nil {
		t.Fatal(err)
	}
}

// TestContractWithoutSpace: a server without space refuses each put, and so a demotion.
func TestContractWithoutSpace(t *testing.T) {
	t.Parallel()
	q := withQuota(t)
	drivertest.Run(t, drivertest.Harness{
		Open:        func(ctx context.Context) (driver.Store, error) { return open(ctx, q.Addr()) },
		Slow:        true,
		Alone:       true,
		Full:        q.full,
		FullSays:    "NOSPACE",
		FullRefuses: []string{"demotion"},
	})
}

// TestNoSpace: a server without space grants nothing, but it keeps, renews and releases the holds
// that exist.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	q := withQuota(t)
	s := mustOpen(t, []string{q.Addr()})
	id, err := s.StoreID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	take(t, s, request("kept", "one"))
	take(t, s, request("demoted", "one"))
	q.mustBe(t, true)
	if _, err := s.Acquire(t.Context(), request("new", "two")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "NOSPACE") {
		t.Errorf("Acquire without space: %v", err)
	}
	for range 3 {
		if _, err := s.Extend(t.Context(), "kept", "one", time.Minute); err != nil {
			t.Errorf("Extend without space: %v", err)
		}
	}
	demote := request("demoted", "one")
	demote.Shared = true
	if _, err := s.Convert(t.Context(), demote); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a demotion without space: %v", err)
	}
	if g, err := s.Extend(t.Context(), "demoted", "one", 0); err != nil || g.Shared {
		t.Errorf("the hold after a demotion that failed: %+v, %v", g, err)
	}
	if text := statusOf(t, s); !strings.Contains(text, "NOSPACE") {
		t.Errorf("Status without space: %s", text)
	}
	if same, err := mustOpen(t, []string{q.Addr()}).StoreID(t.Context()); err != nil || same != id {
		t.Errorf("StoreID without space: %q, %v; it was %q", same, err, id)
	}
	if o, err := s.Release(t.Context(), "kept", "one", 0); err != nil || o != driver.OutcomeReleased {
		t.Errorf("Release without space: %v, %v", o, err)
	}
	q.mustBe(t, false)
	server.Eventually(t, func() error { // after a refusal, the client asks the server again
		_, err := s.Convert(t.Context(), demote)
		return err
	})
	if g, err := s.Extend(t.Context(), "demoted", "one", time.Minute); err != nil || !g.Shared {
		t.Errorf("the hold after its demotion: %+v, %v", g, err)
	}
}

// TestNoSpaceNextToRenewedHolds: a hold that was never renewed would join the lease of a hold that
// was renewed just now. Without space it is renewed where it is, again and again.
func TestNoSpaceNextToRenewedHolds(t *testing.T) {
	t.Parallel()
	q := withQuota(t)
	clock := &laterClock{Clock: driver.SystemClock()}
	s := mustOpen(t, []string{q.Addr()}, etcdstore.WithClock(clock))
	const ttl = 300 * time.Second
	for _, name := range []string{"renewed", "fresh"} {
		r := request(name, "one")
		r.TTL = ttl
		take(t, s, r)
	}
	extend := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if g, err := s.Extend(t.Context(), name, "one", ttl); err != nil || g.TTL < ttl*9/10 {
				t.Errorf("Extend of %q: %+v, %v", name, g, err)
			}
		}
	}
	clock.plus.Add(int64(ttl / 3))
	extend("renewed")
	q.mustBe(t, true)
	for range 3 {
		extend("fresh", "renewed")
		clock.plus.Add(int64(ttl / 3))
	}
	q.mustBe(t, false)
	server.Eventually(t, func() error { return try(t, s, "after") })
	extend("fresh", "renewed")
}

func try(t testing.TB, s driver.Store, name string) error {
	_, err := s.Acquire(t.Context(), request(name, "one"))
	return err
}

// TestNoSpaceForACoolDown: without space for the cool-down, a release ends the lock all the same,
// and says that nothing cools down. Otherwise the lock would last as long as others are renewed
// that have the same lease.
func TestNoSpaceForACoolDown(t *testing.T) {
	t.Parallel()
	q := withQuota(t)
	s := mustOpen(t, []string{q.Addr()})
	l := padlock.New(s)
	defer l.Close(context.Background())
	releases := map[string]func() error{}
	for name, opts := range map[string][]padlock.Option{
		"cool":  {padlock.CoolDown(time.Minute)},
		"least": {padlock.HoldAtLeast(time.Hour)},
		"read":  {padlock.CoolDown(time.Minute), padlock.Shared()},
	} {
		lock, err := l.Acquire(t.Context(), name, opts...)
		if err != nil {
			t.Fatal(err)
		}
		releases[name] = func() error { return lock.Release() }
	}
	lock, err := l.Acquire(t.Context(), "key", padlock.NoRenewal())
	if err != nil {
		t.Fatal(err)
	}
	key, err := lock.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	releases["key"] = func() error { return l.ReleaseKey(t.Context(), key, padlock.CoolDown(time.Minute)) }
	take(t, s, request("driver", "one"))
	q.mustBe(t, true)
	if o, err := s.Release(t.Context(), "driver", "one", time.Minute); o != driver.OutcomeReleased || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Release: %v, %v", o, err)
	}
	if o, err := s.Release(t.Context(), "driver", "one", time.Minute); o != driver.OutcomeGone || err != nil {
		t.Errorf("a second Release: %v, %v", o, err)
	}
	for name, release := range releases {
		err := release()
		if !errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain) || errors.Is(err, padlock.ErrLost) ||
			!strings.Contains(err.Error(), "released without its cool-down") {
			t.Errorf("Release of %q: %v", name, err)
		}
		if st, err := s.Inspect(t.Context(), name); err != nil || len(st.Holds) != 0 {
			t.Errorf("%q after its release: %+v, %v", name, st.Holds, err)
		}
	}
	if n := l.Stats().Uncertain; n != 0 {
		t.Errorf("%d clean-ups, for locks that are released", n)
	}
	q.mustBe(t, false)
	server.Eventually(t, func() error { return try(t, s, "cool") })
	if o, err := s.Release(t.Context(), "cool", "one", time.Minute); o != driver.OutcomeReleased || err != nil {
		t.Errorf("Release with a cool-down, with space again: %v, %v", o, err)
	}
	if err := try(t, s, "cool"); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("Acquire during a cool-down: %v", err)
	}
}
