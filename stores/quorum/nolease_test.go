package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// unleased is a member whose guarantees promise leases, and whose grants have none: a TTL of 0, as
// from a store that rounds, or one below 0.
type unleased struct {
	*link
	ttl time.Duration
}

func (u unleased) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := u.link.Acquire(ctx, r)
	g.TTL = u.ttl
	return g, err
}

func (u unleased) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	g, err := u.link.Extend(ctx, name, token, ttl)
	g.TTL = u.ttl
	return g, err
}

// A grant without a lease from a member with leases does not count. Otherwise the hold would last
// for ever for its holder, and end at the members.
func TestGrantWithoutLease(t *testing.T) {
	for _, ttl := range []time.Duration{0, -time.Nanosecond} {
		bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
			l := open().links
			some, err := quorum.New(quorum.Majority, []driver.Store{l[0], l[1], unleased{l[2], ttl}})
			if err != nil {
				t.Fatal(err)
			}
			defer some.Close()
			most, err := quorum.New(quorum.Majority, []driver.Store{l[0], unleased{l[1], ttl}, unleased{l[2], ttl}})
			if err != nil {
				t.Fatal(err)
			}
			defer most.Close()

			r := request("n")
			g := take(t, some, r)
			if g.TTL <= 0 || g.TTL > r.TTL {
				t.Errorf("two of three members answer with a lease, the grant has %v", g.TTL)
			}
			if g, err := some.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil || g.TTL <= 0 || g.TTL > r.TTL {
				t.Errorf("Extend: %v, %v", g.TTL, err)
			}
			_, err = most.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL)
			wantErr(t, err, driver.ErrUncertain)
			wantOutcome(t, some, r, driver.OutcomeReleased)
			pass(time.Second)

			refused(t, most, reader("n"), driver.ErrUnavailable, driver.ErrHeld)
			nothingLeft(t, c)
		})
	}
}
