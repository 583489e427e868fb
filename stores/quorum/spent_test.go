package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// giver is a member whose Wait fails. As the contract allows, it releases the token afterwards, in
// the background.
type giver struct {
	*link
	gaveUp chan struct{} // a release in the background is over
}

func (w giver) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	w.fault("wait")
	time.AfterFunc(50*time.Millisecond, func() {
		w.srv.now().Release(context.Background(), r.Name, r.Token.Text(), 0)
		w.gaveUp <- struct{}{}
	})
	return driver.Grant{}, driver.ErrUnavailable
}

// A member whose Wait has failed still releases the token of that Wait. So its vote must not count
// for a hold with this token.
func TestWaitSpendsTheToken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		l := open().links
		w := giver{l[0], make(chan struct{}, 100)}
		s, err := quorum.New(quorum.Majority, []driver.Store{w, l[1], l[2]})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		other := request("n")
		take(t, c[2].now(), other) // the third member has somebody else's hold, for a moment
		r := waitOn(t, s, 10)
		if n := l[0].count("wait"); n > 1 {
			t.Errorf("%d waits stood in the queue of a member that had just failed", n)
		}
		<-w.gaveUp
		c[2].now().Release(t.Context(), "n", other.Token.Text(), 0)
		if _, err := open().Acquire(t.Context(), request("n")); !errors.Is(err, driver.ErrHeld) {
			safety.TwoHold(t, "a second caller gets the name during a live hold: %v", err)
		}
		wantLive(t, s, r)
	})
}

// strict is a member that spends the tokens that it refuses, as another quorum does.
type strict struct {
	*memstore.Store
	refused map[string]bool
	again   int
}

func (s *strict) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.RefusedIsSpent = true
	return g
}

func (s *strict) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if s.refused[r.Token.Text()] {
		s.again++
	}
	g, err := s.Store.Acquire(ctx, r)
	s.refused[r.Token.Text()] = errors.Is(err, driver.ErrHeld)
	return g, err
}

// A quorum sends a token that is spent neither with another try nor with a renewal.
func TestRefusedIsSpentAtAMember(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		m := &strict{c[0].now(), make(map[string]bool), 0}
		s, err := quorum.New(quorum.Majority, []driver.Store{c[1].now(), m, c[2].now()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		other := request("n")
		take(t, c[0].now(), other)
		take(t, c[2].now(), other)
		time.AfterFunc(5*time.Millisecond, func() { c[2].now().Release(t.Context(), "n", other.Token.Text(), 0) })
		r := request("n")
		take(t, s, r)
		c[0].now().Release(t.Context(), "n", other.Token.Text(), 0)
		for range 2 {
			pass(time.Second)
			if _, err := s.Extend(t.Context(), "n", r.Token.Text(), r.TTL); err != nil {
				t.Fatal(err)
			}
		}
		if m.again > 0 {
			t.Errorf("the token came %d times after its refusal", m.again)
		}
	})
}
