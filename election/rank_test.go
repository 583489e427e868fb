package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/stores/memstore"
)

// leader returns the label of the leader.
func (c *candidate) leader(t *testing.T) string {
	t.Helper()
	found, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found.Label
}

// endAll ends the candidates.
func endAll(all ...*candidate) {
	for _, c := range all {
		c.stop()
	}
	for _, c := range all {
		<-c.result
		c.locker.Close(context.Background())
	}
}

// TestResignWhenAsked: a leader who is asked resigns, and another candidate leads first.
func TestResignWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		causes := make(chan error, 9)
		lead := func(ctx context.Context) error { <-ctx.Done(); causes <- context.Cause(ctx); return ctx.Err() }
		a := w.joinWith(t, "a", lead, election.ResignWhenAsked())
		b := w.joinWith(t, "b", lead, election.ResignWhenAsked())
		if who := a.leader(t); who != "a" {
			t.Fatalf("the leader is %s", who)
		}
		if _, err := b.locker.Ask(t.Context(), "scheduler", "a new version"); err != nil {
			t.Fatal(err)
		}
		if cause := <-causes; !errors.Is(cause, election.ErrResigned) {
			t.Errorf("the context ended with %v", cause)
		}
		<-time.After(5 * time.Second)
		if who := a.leader(t); who != "b" || w.terms.Load() != 2 {
			t.Errorf("the leader is %s in the term %d; want b in the second", who, w.terms.Load())
		}
		endAll(a, b)
	})
}

// TestRank: the candidate of the greatest rank leads at last, not before the least terms of those
// before it, and then nobody asks it.
func TestRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		const least = time.Minute
		one := w.join(t, "", election.Rank(1, least))
		two := w.join(t, "", election.Rank(2, least))
		three := w.join(t, "", election.Rank(3, least))
		again := w.join(t, "", election.Rank(3, least))
		began := time.Now()
		<-time.After(least - time.Second)
		if who := one.leader(t); who != "rank 1" {
			t.Errorf("before the least term, the leader is %s", who)
		}
		for one.leader(t) != "rank 3" {
			<-time.After(time.Second)
			if time.Since(began) > 4*(least+10*time.Second) {
				t.Fatalf("after as many terms as candidates, the leader is %s", one.leader(t))
			}
		}
		terms := w.terms.Load()
		<-time.After(time.Hour)
		if who := one.leader(t); who != "rank 3" || w.terms.Load() != terms {
			t.Errorf("an hour later the leader is %s, in the term %d after %d", who, w.terms.Load(), terms)
		}
		endAll(one, two, three, again)
	})
}

// TestRankBesideOthers: a leader without a rank is not asked.
func TestRankBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		plain := w.join(t, "plain", election.ResignWhenAsked())
		ranked := w.join(t, "", election.Rank(2, time.Second))
		<-time.After(time.Hour)
		if who := plain.leader(t); who != "plain" {
			t.Errorf("the leader is %s", who)
		}
		endAll(plain, ranked)
	})
}

// TestRankOverHTTP: a padlock server adds the client to each label.
func TestRankOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: labelling{memstore.New()}}
		one := w.join(t, "", election.Rank(1, 0))
		two := w.join(t, "", election.Rank(2, 0))
		<-time.After(10 * time.Second)
		if who := one.leader(t); !strings.HasPrefix(who, "rank 2") {
			t.Errorf("after 10 s the leader is %s", who)
		}
		endAll(one, two)
	})
}

type labelling struct{ *memstore.Store }

func (l labelling) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	r.Holder.Label += " web-3/7 (10.0.0.3)"
	return l.Store.Acquire(ctx, r)
}
