package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// T-RL5: a request that arrives after the release of its hold is found and
// undone.
func TestLateRequestAfterRelease(t *testing.T) {
	for name, f := range map[string]fault{
		"after silence":  {after: 300 * time.Millisecond},
		"after a reset":  late(300 * time.Millisecond),
		"after a minute": {after: 4 * time.Second, mute: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				a, r := open(), request("n")
				r.TTL = driver.DefaultMaxTTL
				a.links[2].next("acquire", f)
				take(t, a, r)
				wantOutcome(t, a, r, driver.OutcomeReleased)
				wantHolders(t, c, "n")
				pass(f.after)
				pass(time.Second)
				if f.after < time.Second { // requests that come later than that lapse
					wantHolders(t, c, "n")
				}
			})
		})
	}
}

// A try that lost the vote is released on all members, even on a member whose grant is not known.
func TestReleaseOnAllMembers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		take(t, c[1].now(), request("n"))
		take(t, c[2].now(), request("n"))
		take(t, c[3].now(), request("n"))
		a.links[0].next("acquire", fault{mute: true})
		a.links[4].next("release", down)
		_, err := a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrHeld)
		pass(3 * time.Second)
		wantHolders(t, c, "n", 2, 3, 4)
	})
}

// A release whose outcome is unknown must not end a later hold of the same token. The quorum leaves
// the member out until the release can no longer arrive.
func TestLateReleaseDoesNotMeetALaterGrant(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		for _, l := range a.links[:2] {
			l.set(func(op string) fault {
				if op == "release" {
					return late(400 * time.Millisecond)
				}
				return lostReply
			})
		}
		a.links[2].always(lostCall)
		_, err := a.Acquire(t.Context(), r)
		wantErr(t, err, driver.ErrUncertain)
		a.heal()
		for err != nil { // the outcome is not known, so the token is repeated
			_, err = a.Acquire(t.Context(), r)
			wantErr(t, err, err, driver.ErrHeld)
			pass(10 * time.Millisecond)
		}
		pass(2 * time.Second)
		if err := extend(t, a, r); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2, 3)
	})
}

func TestOutcomes(t *testing.T) {
	gone, other := func(t *testing.T, s *server, r driver.Request) { s.restart() }, request("n")
	expire := func(t *testing.T, s *server, r driver.Request) { s.clock.ahead.Add(int64(time.Minute)) }
	taken := func(t *testing.T, s *server, r driver.Request) {
		expire(t, s, r)
		s.now().Acquire(t.Context(), other)
	}
	for name, k := range map[string]struct {
		harm []func(*testing.T, *server, driver.Request) // one function each for members 1, 2 and 3
		want driver.Outcome
	}{
		"all live":             {nil, driver.OutcomeReleased},
		"one restarted":        {[]func(*testing.T, *server, driver.Request){gone}, driver.OutcomeReleased},
		"two restarted":        {[]func(*testing.T, *server, driver.Request){gone, gone}, driver.OutcomeGone},
		"one expired":          {[]func(*testing.T, *server, driver.Request){expire}, driver.OutcomeReleased},
		"two expired":          {[]func(*testing.T, *server, driver.Request){expire, expire}, driver.OutcomeExpired},
		"one expired one gone": {[]func(*testing.T, *server, driver.Request){expire, gone}, driver.OutcomeGone},
		"two taken":            {[]func(*testing.T, *server, driver.Request){taken, taken}, driver.OutcomeTaken},
		"one of each":          {[]func(*testing.T, *server, driver.Request){taken, expire, gone}, driver.OutcomeGone},
		"taken and expired":    {[]func(*testing.T, *server, driver.Request){taken, expire, expire}, driver.OutcomeExpired},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				a, r := open(), request("n")
				take(t, a, r)
				pass(time.Millisecond)
				for i, harm := range k.harm {
					harm(t, c[i], r)
				}
				wantOutcome(t, a, r, k.want)
				wantOutcome(t, a, r, driver.OutcomeGone)
			})
		})
	}
}

func TestReleaseUnderFaults(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		a.these(silent, 2, 3)
		_, err := a.Release(t.Context(), r.Name, r.Token.Text(), 0)
		wantErr(t, err, driver.ErrUncertain, driver.ErrUnavailable)
		wantHolders(t, c, "n", 2, 3)
		a.heal()
		pass(time.Second) // the release continues in the background
		wantHolders(t, c, "n")
		wantOutcome(t, a, r, driver.OutcomeGone)

		r = request("n")
		take(t, a, r)
		pass(time.Millisecond)
		a.these(down, 1, 2, 3)
		_, err = a.Release(t.Context(), r.Name, r.Token.Text(), 0)
		wantErr(t, err, driver.ErrUnavailable, driver.ErrUncertain)

		ctx, cancel := context.WithCancel(t.Context())
		a.these(silent, 1, 2, 3)
		time.AfterFunc(time.Millisecond, cancel)
		_, err = a.Release(ctx, r.Name, r.Token.Text(), 0)
		wantErr(t, err, driver.ErrUncertain)
		wantErr(t, err, context.Canceled)
		a.heal()
		pass(3 * time.Second)
		wantHolders(t, c, "n")
	})
}

// All members keep the cool-down, also the one that was late.
func TestCoolDown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		a.links[1].next("release", silent)
		if out, err := a.Release(t.Context(), r.Name, r.Token.Text(), time.Minute); err != nil || out != driver.OutcomeReleased {
			t.Fatal(out, err)
		}
		pass(2 * time.Second)
		wantCooling(t, c, 3)
		pass(time.Minute)
		wantCooling(t, c, 0)
	})
}
