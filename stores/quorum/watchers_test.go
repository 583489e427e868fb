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

// counted is the context of a connection that counts the functions that wait for its end.
type counted struct {
	context.Context
	watchers atomic.Int64
}

// Value hides the type of the Context, so that context.AfterFunc calls the method AfterFunc.
func (*counted) Value(any) any { return nil }

func (c *counted) AfterFunc(f func()) (stop func() bool) {
	c.watchers.Add(1)
	s := context.AfterFunc(c.Context, f)
	return func() bool { c.watchers.Add(-1); return s() }
}

// wantWatchers checks how many holds wait for the end of the connections of members.
func wantWatchers(t *testing.T, want int64, when string, conns ...*counted) {
	t.Helper()
	pass(time.Second) // the last member may answer after the call has returned
	for i, c := range conns {
		if n := c.watchers.Load(); n != want {
			t.Errorf("%s: %d functions wait for the end of the connection of member %d, want %d", when, n, i, want)
		}
	}
}

// A connection outlives many holds. So a hold that has ended must not wait for the end of the
// connection any more: the process would keep the memory of each hold that it ever had.
func TestEndedHoldsWatchNoConnection(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ cluster, _ func() *client) {
		var members []*connected
		var conns []*counted
		for i := range 3 {
			members, conns = append(members, connect()), append(conns, new(counted))
			conns[i].Context = members[i].conn
			members[i].conn = conns[i]
		}
		s, err := quorum.New(quorum.Majority, []driver.Store{members[0], members[1], members[2]})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := request("n")
		take(t, s, r)
		wantLive(t, s, r)
		wantWatchers(t, 1, "after Acquire and Extend", conns...)
		if _, err := s.Acquire(t.Context(), request("n")); err == nil {
			t.Fatal("the name has two holders")
		}
		wantWatchers(t, 1, "after a refused Acquire", conns...)

		before := conns[0]
		conns[0] = &counted{Context: before.Context}
		members[0].conn = conns[0]
		wantLive(t, s, r)
		wantWatchers(t, 0, "after Extend has moved the hold to another connection", before)
		wantWatchers(t, 1, "after Extend has moved the hold to another connection", conns...)
		wantOutcome(t, s, r, driver.OutcomeReleased)
		wantWatchers(t, 0, "after Release", conns...)

		r = request("n")
		take(t, s, r)
		wantWatchers(t, 1, "after another Acquire", conns...)
		for _, m := range members {
			state, _ := m.Inspect(t.Context(), "n")
			if _, err := m.Break(t.Context(), "n", state.Fence); err != nil {
				t.Fatal(err)
			}
		}
		wantErr(t, errOf(s.Extend(t.Context(), "n", r.Token.Text(), 0)), driver.ErrLost)
		wantWatchers(t, 0, "after Break", conns...)

		answer := make(chan struct{})
		members[2].late = answer
		r = request("n")
		take(t, s, r)
		wantOutcome(t, s, r, driver.OutcomeReleased)
		close(answer)
		wantWatchers(t, 0, "after a grant that came later than Release", conns...)
	})
}

// The leases of these holds end at two members, and nobody releases them at the third.
func TestForgottenHoldsWatchNoConnection(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ cluster, _ func() *client) {
		member := connect()
		conn := &counted{Context: member.conn}
		member.conn = conn
		s, err := quorum.New(quorum.Majority, []driver.Store{member, memstore.New(), memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range 65 {
			take(t, s, request(request("").Token.Text()))
		}
		pass(time.Minute)
		take(t, s, request("n"))
		wantWatchers(t, 1, "after the leases of all other holds", conn)
	})
}
