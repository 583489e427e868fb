package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// batching is a server that renews many holds with one request.
type batching struct{ *remote }

func (b batching) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	out := make([]fast.Extended, len(holds))
	err := b.on(call{op: "batch", ctx: ctx, ttl: time.Duration(len(holds))}, func(ctx context.Context) error {
		for i, h := range holds {
			out[i].Grant, out[i].Err = b.Store.Extend(ctx, h.Name, h.Token.Text(), h.TTL)
			out[i].Grant.From = 0
		}
		return nil
	})
	return out, err
}

// withMany runs f in a bubble with n locks of a Locker whose renewals are due together.
func withMany(t *testing.T, n int, f func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock)) {
	synctest.Test(t, func(t *testing.T) {
		b := batching{newRemote()}
		l := newLocker(t, b)
		var locks []*padlock.Lock
		for i := range n {
			locks = append(locks, acquire(t, l, fmt.Sprint("job", i)))
		}
		f(t, l, b, locks)
		b.heal()
		for _, h := range locks {
			if err := h.Release(); err != nil && !errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrReleased) {
				t.Error(err)
			}
		}
	})
}

// Renewals that are due together are sent together.
func TestRenewalsInOneRequest(t *testing.T) {
	withMany(t, 1000, func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock) {
		<-time.After(10 * time.Minute)
		asked := len(b.log("batch")) + len(b.log("extend"))
		if s := l.Stats(); s.Held != len(locks) || s.Lost != 0 || int(s.Renewals) < 10*asked || asked == 0 {
			t.Errorf("%d requests for %+v", asked, s)
		}
	})
}

// A renewal that fails for one name fails for that name only.
func TestRenewalFailsAlone(t *testing.T) {
	withMany(t, 100, func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock) {
		if _, err := b.Store.Break(context.Background(), "job7", locks[7].Fence()); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		for i, h := range locks {
			if (h.Remaining() == 0) != (i == 7) {
				t.Errorf("lock %d: expired is %v", i, h.Remaining() == 0)
			}
		}
		wantOnly(t, context.Cause(locks[7].Context()), padlock.OpHold, padlock.ErrLost)
	})
}

// A batch whose reply is lost is repeated, and no lock is lost.
func TestRenewalBatchIsRepeated(t *testing.T) {
	withMany(t, 100, func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock) {
		b.reply("batch", first(3, lost))
		<-time.After(time.Minute)
		if s := l.Stats(); s.Held != len(locks) || s.RenewalErrors < 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A store that lacks batches gets none.
func TestRenewalWithoutBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batching{newRemote()}
		b.guarantees.Lacks |= driver.AbilityBatchExtender
		l := newLocker(t, b)
		for i := range 100 {
			acquire(t, l, fmt.Sprint("job", i))
		}
		<-time.After(10 * time.Minute)
		if s := l.Stats(); s.Held != 100 || s.RenewalErrors != 0 || len(b.log("batch")) != 0 {
			t.Errorf("%d batches, %+v", len(b.log("batch")), s)
		}
	})
}

// A Release does not wait long for a renewal that is sent with others. For the others that is no
// failure, and they are soon renewed.
func TestReleaseLeavesABatch(t *testing.T) {
	withMany(t, 100, func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock) {
		b.request("batch", first(1, takes(3*time.Second)))
		for len(b.log("batch")) == 0 {
			<-time.After(time.Millisecond)
		}
		began := time.Now()
		for _, h := range locks[:50] {
			release(t, h)
		}
		if d := time.Since(began); d == 0 || d > time.Second {
			t.Errorf("the releases took %v", d)
		}
		<-time.After(time.Second)
		if n := len(b.log("batch")); n < 2 {
			t.Errorf("%d requests, so the others were not renewed soon", n)
		}
		<-time.After(10 * time.Minute)
		for i, h := range locks[50:] {
			if h.Remaining() == 0 {
				t.Errorf("lock %d is over", i)
			}
		}
		if s := l.Stats(); s.RenewalErrors != 0 {
			t.Errorf("%d renewals failed because of a Release", s.RenewalErrors)
		}
	})
}

// If replies are slow, a series of Releases does not keep the other holds from being renewed.
func TestReleasesDoNotStarveABatch(t *testing.T) {
	withMany(t, 500, func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock) {
		b.request("batch", takes(200*time.Millisecond))
		for _, h := range locks[:400] {
			<-time.After(100 * time.Millisecond)
			release(t, h)
		}
		for i, h := range locks[400:] {
			if h.Remaining() == 0 {
				t.Errorf("lock %d is over", i)
			}
		}
	})
}

// logging is a server that notes when each name is renewed.
type logging struct {
	batching
	mu    *sync.Mutex
	times map[string][]time.Time
}

func (s logging) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[name] = append(s.times[name], time.Now())
}

func (s logging) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	s.note(name)
	return s.batching.Extend(ctx, name, token, ttl)
}

func (s logging) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	for _, h := range holds {
		s.note(h.Name)
	}
	return s.batching.ExtendBatch(ctx, holds)
}

// With batches, a hold is renewed after 0.8 to 1.1 thirds of the TTL.
func TestBoundsOfRenewals(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, padlock.DefaultTTL, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := logging{batching{newRemote()}, new(sync.Mutex), map[string][]time.Time{}}
			l := newLocker(t, s, padlock.TTL(ttl))
			for i := range 200 {
				acquire(t, l, fmt.Sprint("job", i))
				<-time.After(ttl / 3 / 200)
			}
			<-time.After(10 * ttl)
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			for name, times := range s.times {
				for i, at := range times[1:] {
					if gap := at.Sub(times[i]); gap < ttl*8/30 || gap > ttl*11/30 {
						t.Errorf("TTL %v: %s is renewed after %v", ttl, name, gap)
					}
				}
			}
		})
	}
}

// Holds that were taken at the same time do not stay together for ever.
func TestRenewalsSpread(t *testing.T) {
	withMany(t, 5000, func(t *testing.T, l *padlock.Locker, b batching, locks []*padlock.Lock) {
		<-time.After(5 * time.Minute)
		seen := len(b.log("batch"))
		<-time.After(padlock.DefaultTTL / 3)
		most, instants := time.Duration(0), map[time.Time]time.Duration{}
		for _, c := range b.log("batch")[seen:] {
			instants[c.at] += c.ttl // the number of holds in the request
			most = max(most, instants[c.at])
		}
		if most > 2048 {
			t.Errorf("%d of %d holds are renewed at the same time", most, len(locks))
		}
	})
}

// sequences is a server that notes the names of each batch, and when the batch came.
type sequences struct {
	batching
	mu    *sync.Mutex
	names *[][]string
	at    *[]time.Time
}

func (s sequences) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	s.mu.Lock()
	names := make([]string, len(holds))
	for i, h := range holds {
		names[i] = h.Name
	}
	*s.names, *s.at = append(*s.names, names), append(*s.at, time.Now())
	s.mu.Unlock()
	return s.batching.ExtendBatch(ctx, holds)
}

// seen returns the names of each batch, and when the batch came.
func (s sequences) seen() ([][]string, []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(*s.names), slices.Clone(*s.at)
}

// withSequences runs f in a bubble with some Lockers of n holds each. The holds are taken one after
// the other in the given time, in the order of their names.
func withSequences(t *testing.T, processes, n int, within time.Duration, f func(t *testing.T, all []sequences)) {
	synctest.Test(t, func(t *testing.T) {
		var all []sequences
		var lockers []*padlock.Locker
		for range processes {
			all = append(all, sequences{batching{newRemote()}, new(sync.Mutex), new([][]string), new([]time.Time)})
			lockers = append(lockers, newLocker(t, all[len(all)-1]))
		}
		for i := range n {
			for _, l := range lockers {
				acquire(t, l, fmt.Sprintf("job%05d", i))
			}
			<-time.After(within / time.Duration(n))
		}
		f(t, all)
	})
}

// Holds that are renewed with one request are renewed together again.
func TestBatchesStayTogether(t *testing.T) {
	withSequences(t, 1, 5000, padlock.DefaultTTL/3, func(t *testing.T, all []sequences) {
		<-time.After(5 * time.Minute)
		batches, _ := all[0].seen()
		renewed := 0
		for _, names := range batches {
			renewed += len(names)
		}
		if renewed < 250*len(batches) {
			t.Errorf("%d renewals in %d requests", renewed, len(batches))
		}
	})
}

// Two processes that take their holds at the same time do not renew them at the same times for
// ever, because the time between two requests of a process is random.
func TestProcessesDriftApart(t *testing.T) {
	withSequences(t, 2, 100, time.Millisecond, func(t *testing.T, both []sequences) {
		<-time.After(10 * time.Minute)
		_, first := both[0].seen()
		_, second := both[1].seen()
		rounds := min(len(first), len(second))
		gaps, apart := map[time.Duration]bool{}, map[time.Duration]bool{}
		for i := range rounds {
			if i > 0 {
				gaps[first[i].Sub(first[i-1]).Round(time.Millisecond)] = true
			}
			apart[second[i].Sub(first[i]).Round(10*time.Millisecond)] = true
		}
		if rounds < 50 || len(gaps) < rounds/2 || len(apart) < rounds/2 {
			t.Errorf("%d requests of each process, %d different times from one to the next, and %d to the other process's",
				rounds, len(gaps), len(apart))
		}
	})
}
