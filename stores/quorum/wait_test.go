package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// wait calls Wait and returns how long it lasted.
func wait(t *testing.T, s driver.Store, r driver.Request) (time.Duration, error) {
	t.Helper()
	var g driver.Grant
	var err error
	d := took(func() { g, err = s.(driver.Waiter).Wait(t.Context(), r, true) })
	if g != (driver.Grant{}) {
		t.Errorf("a quorum reserved: %+v", g)
	}
	return d, err
}

func TestWait(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		if d, err := wait(t, b, request("n")); d != 0 || err != nil {
			t.Errorf("a free name was waited for %v: %v", d, err)
		}
		r := request("n")
		take(t, a, r)
		pass(time.Millisecond)
		if d, err := wait(t, b, request("n")); d < 750*time.Millisecond || d > 1250*time.Millisecond || err != nil {
			t.Errorf("a held name was waited for %v: %v", d, err)
		}
		b.these(silent, 1, 2)
		time.AfterFunc(100*time.Millisecond, func() { a.Release(t.Context(), r.Name, r.Token, 0) })
		if d, err := wait(t, b, request("n")); d < 100*time.Millisecond || d > 700*time.Millisecond || err != nil {
			t.Errorf("a release came after 100 ms, Wait returned after %v: %v", d, err)
		}
		b.these(down, 1, 2, 3)
		_, err := wait(t, b, request("n"))
		wantErr(t, err, driver.ErrUnavailable, driver.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		b.these(silent, 1, 2, 3)
		_, err = b.Wait(ctx, request("n"), false)
		wantErr(t, err, context.DeadlineExceeded, driver.ErrUnavailable)
	})
}

// Wait continues when one member becomes free, and returns when leases expire.
func TestWaitCountsMembers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		b, r := open(), request("n")
		r.TTL = 300 * time.Millisecond
		take(t, c[0].now(), r)
		take(t, c[1].now(), r)
		if d, err := wait(t, b, request("n")); d != 300*time.Millisecond || err != nil {
			t.Errorf("the leases ended after 300 ms, Wait returned after %v: %v", d, err)
		}
	})
}

func TestCloseEndsWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		take(t, a, request("n"))
		pass(time.Millisecond)
		time.AfterFunc(10*time.Millisecond, func() { b.Close() })
		d, err := wait(t, b, request("n"))
		wantErr(t, err, driver.ErrClosed)
		if d != 10*time.Millisecond {
			t.Errorf("it returned after %v", d)
		}
	})
}

// If the members have no Wait, the quorum polls them.
func TestWaitWithMembersThatCannot(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c cluster, open func() *client) {
		held := open()
		r := request("n")
		take(t, c[0].now(), r)
		s, err := quorum.New(quorum.Majority, []driver.Store{held.links[0], withFence(driver.NoFence), withFence(driver.NoFence)}, quorum.NoFences())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if d, err := wait(t, s, request("n")); d < 100*time.Millisecond || d > 300*time.Millisecond || err != nil {
			t.Errorf("Wait returned after %v: %v", d, err)
		}
	})
}

// Many waiters use Lockers for locks that last a moment. Each waiter gets its turn.
func TestManyWaitersMakeProgress(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		const clients, turns = 8, 5
		inside := make(chan struct{}, 1)
		errs := together(t, clients, func(ctx context.Context, i int) error {
			cl := open()
			for j, l := range cl.links {
				l.always(slow(time.Duration(1+(i*7+j*5)%11) * 100 * time.Microsecond))
			}
			for range turns {
				if err := turn(ctx, cl, inside); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	})
}

func turn(ctx context.Context, cl *client, inside chan struct{}) error {
	for {
		r := request("n")
		_, err := cl.Acquire(ctx, r)
		switch {
		case err == nil:
			select {
			case inside <- struct{}{}:
			default:
				return errors.New("two are inside")
			}
			<-time.After(time.Millisecond)
			<-inside
			_, err := cl.Release(ctx, r.Name, r.Token, 0)
			return err
		case !errors.Is(err, driver.ErrHeld):
			return err
		}
		if _, err := cl.Wait(ctx, request("n"), true); err != nil {
			return err
		}
	}
}
