package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// site is the resource that the lock protects: one holder at a time, with fences that grow.
type site struct {
	t      testing.TB
	inside sync.Mutex
	visits int
	last   uint64
}

func (s *site) visit(fence uint64) {
	if !s.inside.TryLock() {
		safety.TwoHold(s.t, "the lock has a holder already")
		return
	}
	defer s.inside.Unlock()
	safety.Rises(s.t, fence, s.last)
	s.last, s.visits = fence, s.visits+1
	<-time.After(time.Millisecond)
}

// takeTwice takes a name and repeats the request, which must get the same fence.
func takeTwice(t *testing.T, a *client) driver.Request {
	t.Helper()
	ours := request("job")
	g := take(t, a, &ours)
	var again driver.Grant
	err := answered(t, "the repeat", func() (err error) {
		again, err = a.Acquire(t.Context(), ours)
		return err
	})
	if err != nil || again.Fence != g.Fence {
		t.Errorf("the fence was %d, the repeat: %+v, %v", g.Fence, again, err)
	}
	return ours
}

// A slow member delays nobody. Its replies take 20 s, longer than any caller waits for them.
func TestSlowMember(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(), r.client()
	a.spoil(slowReplies, 2)
	for range 5 {
		ours := takeTwice(t, a)
		refused(t, b, request("job"))
		free(t, a, ours)
	}
	a.heal(2)
	r.nothingLeft()
}

// Lost replies of two members do no harm. If the replies of three are lost, the outcome is unknown:
// it is not reported as held, and it is cleaned up.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(), r.client()
	free(t, a, taken(t, a))
	a.spoil(loseReplies, 0, 4)
	ours := takeTwice(t, a)
	free(t, a, ours)

	a.spoil(loseReplies, 2)
	_, err := a.Acquire(t.Context(), request("job"))
	wantSilence(t, err, "Acquire whose replies were lost on the way from three of five")
	a.heal(0, 2, 4)
	r.nothingLeft()
	ours = taken(t, b)
	b.spoil(loseReplies, 1, 2, 3)
	if out, err := b.Release(t.Context(), "job", ours.Token.Text(), 0); err == nil {
		t.Errorf("Release whose replies were lost on the way from three of five: %v", out)
	}
	b.heal(1, 2, 3)
	eventually(t, "Acquire after that", func() bool {
		_, err := a.Acquire(t.Context(), request("job"))
		return err == nil
	})
}

// If the requests to three of five members are lost, the outcome is the same as with three dead
// members.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(), r.client()
	free(t, a, taken(t, a))
	a.spoil(loseRequests, 0, 2, 4)
	_, err := a.Acquire(t.Context(), request("job"))
	wantSilence(t, err, "Acquire of which three of five hear nothing")
	eventually(t, "another client, which all hear", func() bool {
		ours := request("job")
		_, err := b.Acquire(t.Context(), ours)
		if err == nil {
			free(t, b, ours)
		}
		return err == nil
	})
	a.heal(0, 2, 4)
	r.nothingLeft()
}

// contend makes each client take the lock several times, through package padlock. A client tries
// again if it learns only that too few members agree.
func contend(t *testing.T, s *site, times int, clients ...*client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			l := padlock.New(c.Store, padlock.KeepStoreOpen())
			for n := 0; n < times; {
				err := l.Do(ctx, "job", func(ctx context.Context) error {
					fence, _ := padlock.FenceFrom(ctx)
					s.visit(fence)
					n++
					return nil
				})
				if err != nil && (ctx.Err() != nil || !silence(err)) {
					t.Errorf("client %d, after %d of %d: %v", i, n, times, err)
					break
				}
				if err != nil {
					t.Logf("client %d tries again: %v", i, err)
				}
			}
			if err := l.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if want := times * len(clients); s.visits != want {
		t.Errorf("%d visits, want %d", s.visits, want)
	}
}

// silence reports whether err is right for a client that reaches some members and finds these
// divided. The client cannot know whether one of the other members has granted the name.
func silence(err error) bool {
	return !errors.Is(err, driver.ErrHeld) && (errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain))
}

// T-RL3, asymmetric partition: each client reaches a quorum, and no two clients reach the same one.
// No holds overlap, and every client makes progress.
func TestTRL3AsymmetricPartition(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(), r.client()
	free(t, a, taken(t, a))
	a.spoil(loseReplies, 3)
	a.spoil(loseRequests, 4)
	b.spoil(loseReplies, 0)
	b.spoil(cut, 1)
	contend(t, &site{t: t}, 8, a, b)
	a.heal(3, 4)
	b.heal(0, 1)
	r.nothingLeft()
}

// T-RL3, split votes: all clients that ask at the same time get their turns, even though their
// delays differ.
func TestTRL3SplitVotes(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	clients := []*client{r.client(), r.client(), r.client(), r.client()}
	for i, c := range clients {
		c.spoil(jitter, i, (i+1)%5)
	}
	contend(t, &site{t: t}, 5, clients...)
	r.nothingLeft()
}

// T-RL4: the greatest fence comes from server 0, which the next quorum does not
// ask. It is an hour ahead, as a clock may be.
func TestTRL4SuccessiveQuorums(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(), r.client()
	ahead := request("job")
	ahead.FenceAbove = uint64(time.Now().Add(time.Hour).UnixMicro())
	one := r.direct(0)
	take(t, one, &ahead)
	free(t, one, ahead)

	a.spoil(cut, 3, 4)
	b.spoil(cut, 0, 1)
	last := ahead.FenceAbove
	for range 5 {
		for _, c := range []*client{a, b} {
			ours := request("job")
			g := take(t, c, &ours)
			safety.Rises(t, g.Fence, last)
			last = g.Fence
			free(t, c, ours)
		}
	}
}

// T-RL5: requests arrive long after a quorum has confirmed the release of their hold. They leave
// nothing behind, whether the name is free by then or another client holds it.
func TestTRL5LateRequestAfterRelease(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	a, b := r.client(), r.client()
	free(t, a, taken(t, a))
	for _, meanwhile := range []bool{false, true} {
		r.nothingLeft() // of the locks that were released before
		a.spoil(lateRequests, 1, 2)
		ours, other := request("job"), request("job")
		take(t, a, &ours)
		for _, i := range []int{1, 2} {
			if holds(t, b.members[i], "job") {
				t.Fatal("the request has arrived already")
			}
		}
		free(t, a, ours)
		if meanwhile {
			take(t, b, &other)
		}
		a.heal(1, 2) // lets the delayed requests pass
		for _, i := range []int{1, 2} {
			eventually(t, "a request that was sent after the late one is answered", func() bool {
				_, err := a.members[i].Inspect(t.Context(), "job")
				return err == nil
			})
		}
		if meanwhile {
			extend(t, b, other, 50*time.Second)
			free(t, b, other)
		}
		r.nothingLeft()
		_, err := a.Extend(t.Context(), ours.Name, ours.Token.Text(), 50*time.Second)
		wantIs(t, err, driver.ErrLost, "Extend of a hold that was released")
	}
}
