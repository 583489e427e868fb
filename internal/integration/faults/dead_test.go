package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// down are the ways in which a server can fail to answer.
var down = map[string]struct{ down, up func(*server.Server) }{
	"killed": {(*server.Server).Kill, func(s *server.Server) { s.Restart(false) }},
	"frozen": {(*server.Server).Pause, (*server.Server).Resume},
}

// T-RL1, the first half: with two of five dead the quorum works, and excludes.
func TestTRL1TwoDead(t *testing.T) {
	t.Parallel()
	for how, d := range down {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRack(t, 5)
			a, b := r.client(), r.client()
			first := request("job")
			before := take(t, a, &first)
			free(t, a, first)
			d.down(r.servers[1])
			d.down(r.servers[3])
			ours := request("job")
			g := take(t, a, &ours)
			safety.Rises(t, g.Fence, before.Fence)
			refused(t, b, request("job"))
			extend(t, a, ours, 50*time.Second)
			free(t, a, ours)
			other := request("job")
			safety.Rises(t, take(t, b, &other).Fence, g.Fence)
			free(t, b, other)
			d.up(r.servers[1])
			d.up(r.servers[3])
			r.nothingLeft()
		})
	}
}

// T-RL1, second half: with three of five servers dead nothing is granted, and no client is reported
// as the holder. Nothing is left on the living servers, and nothing on those that wake up and read
// the request later.
func TestTRL1ThreeDead(t *testing.T) {
	t.Parallel()
	for how, d := range down {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRack(t, 5)
			a := r.client(redisstore.RestartGuard(redisstore.GuardOff))
			free(t, a, taken(t, a)) // every member has been reached once
			dead := []int{0, 2, 4}
			for _, i := range dead {
				d.down(r.servers[i])
			}
			for range 3 {
				_, err := a.Acquire(t.Context(), request("job"))
				wantSilence(t, err, "Acquire with three of five dead")
			}
			for _, i := range []int{1, 3} {
				s := r.direct(i)
				eventually(t, "the living have nothing left", func() bool { return !holds(t, s, "job") })
			}
			for _, i := range dead {
				d.up(r.servers[i])
			}
			r.nothingLeft()
			eventually(t, "Acquire when they are back", func() bool {
				_, err := a.Acquire(t.Context(), request("job"))
				return err == nil
			})
		})
	}
}

func taken(t testing.TB, s driver.Store) driver.Request {
	t.Helper()
	r := request("job")
	take(t, s, &r)
	return r
}

// bare lets client b take the name once, so that b knows all five servers. After that, client a
// takes a hold on servers 0, 1 and 2 only.
func bare(t *testing.T, r *rack, ttl time.Duration, opts ...redisstore.Option) (a, b *client, ours driver.Request) {
	t.Helper()
	a, b = r.client(opts...), r.client(opts...)
	first := request("job")
	first.TTL = ttl
	take(t, b, &first)
	free(t, b, first)
	a.spoil(cut, 3, 4)
	ours = request("job")
	ours.TTL = ttl
	take(t, a, &ours)
	other := request("job")
	other.TTL = ttl
	refused(t, b, other)
	return a, b, ours
}

// T-RL2 without a guard: a member restarts empty, and so a second quorum can grant the name. Two
// clients hold it; only their fences differ. This is why the guard is on unless it is switched off
// by name.
func TestTRL2RestartedEmptyWithoutGuard(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b, ours := bare(t, r, 50*time.Second, redisstore.RestartGuard(redisstore.GuardOff))
	before := extend(t, a, ours, 0)
	r.servers[2].Kill()
	r.servers[2].Restart(false)
	var second driver.Grant
	eventually(t, "the other client is granted what is held", func() (ok bool) {
		var err error
		second, err = b.Acquire(t.Context(), request("job"))
		return err == nil
	})
	safety.Rises(t, second.Fence, before.Fence)
	eventually(t, "the first holder learns it when it asks", func() bool {
		_, err := a.Extend(t.Context(), "job", ours.Token.Text(), 50*time.Second)
		return err != nil
	})
}

// T-RL2 with the guard: the other client knew the member under another run id, and waits until all
// leases from before the restart have ended.
func TestTRL2RestartedEmptyWithGuard(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	r := newRack(t, 5)
	_, b, _ := bare(t, r, ttl, redisstore.MaxTTL(ttl))
	first, asked := r.direct(0), time.Now()
	st, err := first.Inspect(t.Context(), "job")
	if err != nil || len(st.Holds) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	// Until is computed from the remaining time, so it is late by the time that the reply took.
	until := st.Holds[0].Until.Add(-time.Since(asked) - 100*time.Millisecond)
	r.servers[2].Kill()
	r.servers[2].Restart(false)
	eventually(t, "the other client is granted the name", func() bool {
		other := request("job")
		other.TTL = ttl
		_, err := b.Acquire(t.Context(), other)
		if err == nil && time.Now().Before(until) {
			safety.TooEarly(t, "granted before %v, while somebody holds it", until)
			t.FailNow()
		}
		return err == nil
	})
}

// A member that restarted empty gets the hold back with the next Extend, if the other members
// confirm it. So the next restart does no harm.
func TestRestartedMembersGetTheHoldBack(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(redisstore.RestartGuard(redisstore.GuardOff)), r.client(redisstore.RestartGuard(redisstore.GuardOff))
	ours := request("job")
	g := take(t, a, &ours)
	for i, srv := range r.servers {
		srv.Kill()
		srv.Restart(false)
		s := r.direct(i)
		eventually(t, "the member has the hold again", func() bool {
			again, err := a.Extend(t.Context(), "job", ours.Token.Text(), 50*time.Second)
			if errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) {
				return false // on a busy machine the members may not answer in time
			}
			if err != nil || again.Fence != 0 && again.Fence != g.Fence {
				t.Fatalf("Extend while one of five has forgotten: %+v, %v", again, err)
			}
			st, err := s.Inspect(t.Context(), "job")
			return err == nil && len(st.Holds) == 1
		})
		refused(t, b, request("job"))
	}
	free(t, a, ours)
	eventually(t, "another client is granted it", func() bool {
		next, err := b.Acquire(t.Context(), request("job"))
		if err == nil {
			safety.Rises(t, next.Fence, g.Fence, "all five have restarted")
		}
		return err == nil
	})
}
