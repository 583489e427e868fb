package sampler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// sums returns the sums over the steps of a day.
func sums(d sampler.Day) (sum sampler.Step) {
	for _, s := range d.Steps {
		sum.Watched += s.Watched
		sum.Held += s.Held
		sum.Waiters = max(sum.Waiters, s.Waiters)
		sum.Lost += s.Lost
	}
	return sum
}

// A Sampler knows for how long a name was held in the last day, how many waited for it, what was
// lost, and for how long it has looked.
func TestDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l, sampler.Interval(5*time.Second), sampler.Prefix("n"))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if d := s.Day("nightly"); len(d.Steps) != sampler.DaySteps || sums(d) != (sampler.Step{}) {
			t.Errorf("before the first sample: %+v", sums(d))
		}
		go s.Run(ctx)
		go look(ctx, s)
		later(3 * time.Hour)
		k := take(t, l, "nightly")
		waiting, giveUp := context.WithCancel(t.Context())
		other := padlock.New(store, padlock.KeepStoreOpen())
		defer other.Close(t.Context())
		go other.Do(waiting, "nightly", func(context.Context) error { return nil })
		later(15 * time.Minute)
		giveUp()
		later(15 * time.Minute)
		k.Release()
		later(time.Hour)
		take(t, l, "nightly", padlock.NoRenewal(), padlock.TTL(50*time.Second))
		later(2 * time.Minute)
		near := func(d, want time.Duration) bool { return (d - want).Abs() <= 15*time.Second }
		got := sums(s.Day("nightly"))
		if !near(got.Held, 30*time.Minute+50*time.Second) || got.Waiters != 1 || got.Lost != 1 || !near(got.Watched, 4*time.Hour+32*time.Minute) {
			t.Errorf("the day has %+v", got)
		}
		if got := sums(s.Day("never-seen")); got.Held != 0 || !near(got.Watched, 4*time.Hour+32*time.Minute) {
			t.Errorf("the day of a name that was always free has %+v", got)
		}
		if got := sums(s.Day("other")); got.Watched != 0 {
			t.Errorf("the day of a name that is not watched has %+v", got)
		}
		later(23 * time.Hour)
		if got := sums(s.Day("nightly")); !near(got.Held, 50*time.Second) || got.Lost != 1 {
			t.Errorf("a day later it has %+v", got)
		}
	})
}

// A name that the Sampler may have forgotten was not watched.
func TestDayOfForgottenNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		s := sampler.New(l, sampler.MaxNames(1))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		go look(ctx, s)
		for _, name := range []string{"a", "b"} {
			k := take(t, l, name)
			later(time.Hour)
			k.Release()
			later(time.Minute)
		}
		if got := sums(s.Day("a")); got.Held != 0 || got.Watched > time.Hour+10*time.Minute {
			t.Errorf("the forgotten name: %+v", got)
		}
		if got := sums(s.Day("b")); got.Held < 59*time.Minute {
			t.Errorf("the other name: %+v", got)
		}
	})
}

// While the state of a name is unknown, it is neither held nor watched.
func TestDayOfUnknownStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &partial{Store: memstore.New(), listed: func(string) bool { return false }}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l, sampler.Watch("nightly"))
		take(t, l, "nightly")
		for second := range 51 { // for 30 s of these 50, the store cannot tell the state
			store.hidden = ""
			if second > 10 && second <= 40 {
				store.hidden = "nightly"
			}
			sample(t, s)
			later(time.Second)
		}
		if got := sums(s.Day("nightly")); got.Held > 20*time.Second || got.Held < 18*time.Second || got.Watched != got.Held {
			t.Errorf("the day has %+v", got)
		}
	})
}

// A name that was chosen to be watched is watched, even if the store cannot list it or the prefix
// is another.
func TestDayOfWatchedNames(t *testing.T) {
	for what, opts := range map[string][]sampler.Option{
		"no list":        {sampler.Watch("nightly")},
		"another prefix": {sampler.Watch("nightly"), sampler.Prefix("shop/")},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &partial{Store: memstore.New(), listed: func(string) bool { return false }}
				l := padlock.New(store)
				defer l.Close(t.Context())
				s := sampler.New(l, append(opts, sampler.Interval(5*time.Second))...)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go s.Run(ctx)
				go look(ctx, s)
				later(3 * time.Hour)
				k := take(t, l, "nightly")
				later(20 * time.Minute)
				k.Release()
				later(40 * time.Minute)
				near := func(d, want time.Duration) bool { return (d - want).Abs() <= 15*time.Second }
				if got := sums(s.Day("nightly")); !near(got.Watched, 4*time.Hour) || !near(got.Held, 20*time.Minute) {
					t.Errorf("the day has %+v", got)
				}
				if got := sums(s.Day("other")); got.Watched != 0 {
					t.Errorf("the day of a name that is not watched has %+v", got)
				}
			})
		})
	}
}
