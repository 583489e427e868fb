package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A scripted Listener has one connection at a time. The test says when notifications arrive on it
// and when it is lost.
type scripted struct {
	calls atomic.Int64 // connections so far
	open  atomic.Int64 // connections that are open now
	down  atomic.Bool  // connections cannot be made
	lose  chan error   // ends the connection
	woken func(string)
}

func (l *scripted) Listen(ctx context.Context, _ string, ready func(), woken func(string)) error {
	l.calls.Add(1)
	if l.down.Load() {
		return errors.New("connection refused")
	}
	l.open.Add(1)
	defer l.open.Add(-1)
	l.woken = woken
	ready()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-l.lose:
		return err
	}
}

// notifiedStore runs f in a bubble of synctest with a store that is notified.
func notifiedStore(t *testing.T, f func(s *Store, l *scripted, one *localWaiter)) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(&file{})
		defer db.Close()
		l := &scripted{lose: make(chan error)}
		s, err := Open(t.Context(), db, PostgreSQL, Lazy(), Notify(l))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		one, remove := s.local.add("name", "token")
		defer remove()
		f(s, l, one)
	})
}

// TestSuccessor goes through the states of the connection for notifications.
//
//	connection   pushed   a waiter looks
//	none         no
//	opened       yes      because notifications may have been sent before
//	lost         no       because it has to poll now
//	opened again yes      because notifications may have been lost meanwhile
func TestSuccessor(t *testing.T) {
	notifiedStore(t, func(s *Store, l *scripted, one *localWaiter) {
		step := func(what string, pushed bool) {
			t.Helper()
			synctest.Wait()
			if !wasWoken(one) {
				t.Errorf("%s: the waiter does not look", what)
			}
			if got := s.local.pushChannel() != ""; got != pushed {
				t.Errorf("%s: pushed is %v", what, got)
			}
		}
		if s.local.pushChannel() != "" {
			t.Error("pushed without a connection")
		}
		defer s.wantNotifications()()
		step("opened", true)
		l.lose <- errors.New("terminated by the administrator")
		step("lost", false)
		passTime(time.Second)
		step("opened again", true)
		if l.calls.Load() != 2 || l.open.Load() != 1 {
			t.Errorf("%d connections were made and %d are open, want 2 and 1", l.calls.Load(), l.open.Load())
		}
	})
}

// While no connection can be made, the store tries again after longer and longer pauses.
func TestListenPauses(t *testing.T) {
	notifiedStore(t, func(s *Store, l *scripted, one *localWaiter) {
		l.down.Store(true)
		defer s.wantNotifications()()
		passTime(time.Minute)
		if n := l.calls.Load(); n < 12 || n > 30 {
			t.Errorf("%d tries in a minute", n)
		}
		l.down.Store(false)
		passTime(6 * time.Second)
		if l.open.Load() != 1 || s.local.pushChannel() == "" {
			t.Error("no connection after the server came back")
		}
	})
}

// The connection is closed some time after the last wait, and opened again for the next one.
func TestListenOnlyWhileSomebodyWaits(t *testing.T) {
	notifiedStore(t, func(s *Store, l *scripted, one *localWaiter) {
		done := s.wantNotifications()
		passTime(5 * idleListen)
		if l.open.Load() != 1 {
			t.Fatal("no connection during a long wait")
		}
		done()
		passTime(2 * idleListen)
		if l.open.Load() != 0 || s.local.pushChannel() != "" {
			t.Error("a connection although nobody waits")
		}
		defer s.wantNotifications()()
		synctest.Wait()
		if l.open.Load() != 1 || s.local.pushChannel() == "" {
			t.Error("no connection for a later wait")
		}
	})
}

// Each notification wakes the waiter that it names, and no other.
func TestNotifications(t *testing.T) {
	notifiedStore(t, func(s *Store, l *scripted, one *localWaiter) {
		defer s.wantNotifications()()
		synctest.Wait()
		wasWoken(one)
		state := func() (text string) {
			select {
			case fence := <-one.to:
				text += fmt.Sprint("claim ", fence)
			default:
			}
			if wasWoken(one) {
				text += "look"
			}
			select {
			case <-one.next:
				text += "next"
			default:
			}
			return text
		}
		mine, other := address{"token", "c"}, address{"another", "c"}
		text := func(args []any) string { return args[1].(string) }
		for payload, want := range map[string]string{
			text(notification(mine, 7, false)):  "claim 7",
			text(notification(mine, 0, false)):  "look",
			text(notification(mine, 0, true)):   "next",
			text(notification(other, 7, false)): "",
			text(notification(other, 0, true)):  "",
			// as an older build writes it
			opaque("token").hash() + " 7 @5 alone": "claim 7",
			"probe-x":                              "",
			"":                                     "",
			opaque("token").hash() + " x":          "",
		} {
			l.woken(payload)
			if got := state(); got != want {
				t.Errorf("%q: %q, want %q", payload, got, want)
			}
		}
	})
}
