package register_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/register"
)

// older writes records as a padlock did that knew no marks of holds.
type older struct{ *front }

var aMark = regexp.MustCompile(`,"change":"[A-Z2-7]*"`)

func (o older) Put(ctx context.Context, name string, data []byte, version string) error {
	return o.front.Put(ctx, name, aMark.ReplaceAll(data, nil), version)
}

func openObserved(r register.Register) *register.Store {
	return register.New(r, register.Options{Name: "shelf", Clock: register.Clock{Observed: true}})
}

// A reader that is dead ends with its lease for the readers that renew in turn, for a process that
// watches them, and in the record, which takes no more readers when it is full.
func TestDeadReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(register.Clock{Observed: true})
		var stores []*register.Store
		var readers []driver.Request
		for n := range 4 {
			store := openObserved(s.open())
			defer store.Close()
			r := request("job")
			r.Shared, r.Holder.Label = true, fmt.Sprint("reader-", n)
			if n < 3 {
				if _, err := store.Acquire(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			stores, readers = append(stores, store), append(readers, r)
		}
		see := func(process, want int) {
			t.Helper()
			state, err := stores[process].Inspect(t.Context(), "job")
			if err != nil || len(state.Holds) != want {
				t.Errorf("process %d sees %d readers, want %d: %v", process, len(state.Holds), want, err)
			}
		}
		for n := range 20 { // the reader 0 is dead
			<-time.After(5 * time.Second)
			i := 1 + n%2
			if _, err := stores[i].Extend(t.Context(), "job", readers[i].Token.Text(), 30*time.Second); err != nil {
				t.Fatal(err)
			}
			if n < 4 {
				see(3, 3)
			}
			if n > 8 {
				see(3, 2)
			}
		}
		see(1, 2)
		see(2, 2)
		if _, err := stores[3].Acquire(t.Context(), readers[3]); err != nil {
			t.Fatal(err)
		}
		if data := s.items["job"].data; strings.Contains(data, "reader-0") || strings.Count(data, `"label":`) != 3 {
			t.Errorf("the record has other readers than three: %s", data)
		}
	})
}

// No process takes a name before the leases of its readers have ended, in whichever order others
// renew and look, and if a part of the processes has an older padlock.
func TestNoObserverIsEarly(t *testing.T) {
	rounds := 100
	if server.IsThorough() {
		rounds = 400
	}
	for _, olderOnes := range []int{0, 1, 4} {
		t.Run(fmt.Sprint(olderOnes, " older"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(register.Clock{Observed: true})
				var mu sync.Mutex
				ends := map[string]time.Time{} // of the leases, as their holders know them
				writers := 0
				var all sync.WaitGroup
				for i := range 5 {
					f := s.open()
					var r register.Register = f
					if i < olderOnes {
						r = older{f}
					}
					store := openObserved(r)
					defer store.Close()
					all.Go(func() {
						p := observer{t, store, rand.New(rand.NewPCG(7, uint64(i))), &mu, ends, &writers}
						for range rounds {
							p.live()
						}
					})
				}
				all.Wait()
				if writers < 3 {
					t.Errorf("only %d writers got the name, so this test shows little", writers)
				}
			})
		})
	}
}

// An observer is a process that reads and writes at random.
type observer struct {
	*testing.T
	store   *register.Store
	rand    *rand.Rand
	mu      *sync.Mutex
	ends    map[string]time.Time
	writers *int
}

func (p observer) sleep(most time.Duration) {
	<-time.After(time.Duration(p.rand.Int64N(int64(most))))
}

// live takes the name, extends the lease some times, and releases the name or dies.
func (p observer) live() {
	p.sleep(2 * time.Second)
	r := request("job")
	r.Shared, r.TTL = p.rand.IntN(3) > 0, time.Duration(1+p.rand.IntN(3))*time.Second
	sent := time.Now()
	if _, err := p.store.Acquire(p.Context(), r); err != nil {
		if !errors.Is(err, driver.ErrHeld) {
			p.Error(err)
		}
		return
	}
	p.granted(r, sent)
	for p.rand.IntN(3) > 0 {
		p.sleep(r.TTL)
		ttl := time.Duration(1+p.rand.IntN(3)) * time.Second
		sent = time.Now()
		g, err := p.store.Extend(p.Context(), "job", r.Token.Text(), ttl)
		if errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired) {
			p.gone(r)
			return
		} else if err != nil {
			p.Error(err)
			return
		}
		p.extended(r, sent.Add(g.TTL))
	}
	if p.rand.IntN(4) > 0 {
		p.gone(r)
		if _, err := p.store.Release(p.Context(), "job", r.Token.Text(), 0); err != nil {
			p.Error(err)
		}
	}
}

// granted fails the test if the lease of somebody whom r excludes has not ended.
func (p observer) granted(r driver.Request, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, end := range p.ends {
		if !r.Shared && end.After(time.Now()) {
			safety.TooEarly(p, "a writer got the name %v before the lease of %s ended", time.Until(end), token)
		}
	}
	if !r.Shared {
		*p.writers++
		clear(p.ends)
		return
	}
	p.ends[r.Token.Text()] = sent.Add(r.TTL)
}

func (p observer) extended(r driver.Request, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Shared {
		p.ends[r.Token.Text()] = end
	}
}

func (p observer) gone(r driver.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ends, r.Token.Text())
}

// A reader that is dead keeps nobody out for longer than its lease, although new processes read
// again and again: each of them sees the dead one for the first time, and writes that down.
func TestDeadReaderAmongNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(register.Clock{Observed: true})
		writer := openObserved(s.open())
		defer writer.Close()
		read := func() (*register.Store, driver.Request) {
			reader, r := openObserved(s.open()), request("job")
			r.Shared, r.TTL = true, 2*time.Second
			if _, err := reader.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			return reader, r
		}
		dead, _ := read()
		defer dead.Close()
		for began := time.Now(); time.Since(began) < 15*time.Second; {
			reader, r := read()
			<-time.After(100 * time.Millisecond)
			if out, err := reader.Release(t.Context(), "job", r.Token.Text(), 0); err != nil || out != driver.OutcomeReleased {
				t.Fatal(out, err)
			}
			reader.Close()
			if _, err := writer.Acquire(t.Context(), request("job")); err == nil {
				return
			}
			<-time.After(900 * time.Millisecond)
		}
		t.Error("the writer has nothing after 15 s")
	})
}
