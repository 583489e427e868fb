package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// slowHalf lets every other request arrive up to 250 ms late, in an order that the seed decides.
func slowHalf(cl *client, seed uint64) {
	for i, l := range cl.links {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		l.set(func(string) fault { // called with a mutex held
			if random.IntN(2) == 0 {
				return fault{}
			}
			return slow(time.Duration(random.IntN(250)) * time.Millisecond)
		})
	}
}

// A caller is alone and uses each name once. It is never told that somebody holds the name: if a
// try leaves a hold at slow members, only the next try of the same call finds it there.
func TestNobodyIsInItsOwnWay(t *testing.T) {
	for _, rule := range []quorum.Rule{quorum.Majority, quorum.All} {
		t.Run(rule.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(5).client(t, rule, quorum.MemberTimeout(100*time.Millisecond))
				defer pass(10 * time.Second) // for requests that are on their way
				defer cl.Close()
				l := padlock.New(cl, padlock.KeepStoreOpen(), padlock.TTL(10*time.Second))
				defer l.Close(context.Background())
				slowHalf(cl, 7)
				granted := 0
				for i := range 400 {
					lock, err := l.TryAcquire(t.Context(), fmt.Sprint("name ", i))
					switch {
					case errors.Is(err, padlock.ErrHeld):
						t.Errorf("try %d: %v", i, err)
					case err == nil:
						granted++
						lock.Release()
					}
				}
				t.Logf("%d of 400 were granted", granted)
			})
		})
	}
}

// leaves makes a try that gives up before its requests arrive at members 1 and 2 of 3. These
// members have a hold of it from 700 ms after the beginning until it is certain that no more
// requests can arrive.
func leaves(t *testing.T, cl *client) (spent driver.Request) {
	t.Helper()
	spent = request("n")
	for _, l := range cl.links[:2] {
		l.set(func(op string) fault {
			if op == "acquire" {
				return slow(700 * time.Millisecond)
			}
			return fault{}
		})
	}
	_, err := cl.Acquire(t.Context(), spent)
	wantErr(t, err, driver.ErrSpent)
	cl.heal()
	return spent
}

// A try waits until nothing is left of the same caller's own spent try. It does not wait for
// another caller's spent try.
func TestLeftoverOfASpentTry(t *testing.T) {
	for name, own := range map[string]bool{"of the same caller": true, "of another caller": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				cl := open()
				spent := leaves(t, cl)
				pass(250 * time.Millisecond)
				wantHolders(t, c, "n", 1, 2)
				r := request("n")
				r.Holder = spent.Holder
				if own {
					r.Spent = []driver.Token{spent.Token}
				}
				_, err := cl.Acquire(t.Context(), r)
				if own && err != nil {
					t.Errorf("nobody holds it: %v", err)
				} else if !own {
					wantErr(t, err, driver.ErrHeld)
				}
				pass(time.Second)
			})
		})
	}
}

// If another caller holds the name, the error is ErrHeld, even if the caller's own spent tries may
// have left something.
func TestHeldBesideALeftover(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		cl, rival := open(), open()
		spent := leaves(t, cl)
		take(t, rival, request("n"))
		r := request("n")
		r.Holder, r.Spent = spent.Holder, []driver.Token{spent.Token}
		_, err := cl.Acquire(t.Context(), r)
		wantErr(t, err, driver.ErrHeld)
		pass(time.Second)
	})
}

// A request names a live token as spent. The token still holds the name, so it does not count as
// spent.
func TestLiveTokenIsNotSpent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		cl := open()
		live := request("n")
		take(t, cl, live)
		r := request("n")
		r.Holder, r.Spent = live.Holder, []driver.Token{live.Token}
		_, err := cl.Acquire(t.Context(), r)
		wantErr(t, err, driver.ErrHeld)
	})
}

// A caller that waits has a new token for each try; the list of spent ones stays short enough.
func TestLongWaitSpendsManyTokens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := locker(t, open()), locker(t, open())
		lock, err := a.Acquire(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { lock.Release() })
		if _, err := b.Acquire(t.Context(), "n"); err != nil {
			t.Errorf("after a minute: %v", err)
		}
	})
}
