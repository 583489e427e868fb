package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// held is a lock in one of the states of the table in hold.go.
type held struct {
	store *remote
	l     *padlock.Locker
	h     *padlock.Lock
	gate  chan struct{} // closed when the request under way may go on
	rec   recorder
}

// hang lets the next requests of a kind wait for the gate.
func (s *held) hang(op string) {
	s.store.request(op, func(ctx context.Context, _ int) error {
		select {
		case <-s.gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// statesOfAHold brings a lock that is held into each state.
var statesOfAHold = map[string]func(*testing.T, *held){
	"held": func(*testing.T, *held) {},
	"renewing": func(_ *testing.T, s *held) {
		s.hang("extend")
		<-time.After(12 * time.Second)
	},
	"converting": func(_ *testing.T, s *held) {
		s.hang("convert")
		go s.h.Demote(context.Background())
		synctest.Wait()
	},
	"exported": func(t *testing.T, s *held) {
		if _, err := s.h.Export(t.Context()); err != nil {
			t.Fatal(err)
		}
	},
	"releasing": func(_ *testing.T, s *held) {
		s.hang("release")
		go s.h.Release()
		synctest.Wait()
	},
	"over": func(_ *testing.T, s *held) {
		s.store.breakJob()
		s.h.Check(context.Background())
	},
	"released": func(t *testing.T, s *held) { release(t, s.h) },
}

// eventsOfAHold returns the error of the method that is called.
var eventsOfAHold = map[string]func(*held) error{
	"Release": func(s *held) error { return s.h.Release() },
	"Close":   func(s *held) error { return s.l.Close(context.Background()) },
	"Export":  func(s *held) error { _, err := s.h.Export(context.Background()); return err },
	"Promote": func(s *held) error { return s.h.Promote(context.Background()) },
	"Check":   func(s *held) error { return s.h.Check(context.Background()) },
	"time": func(s *held) error { // no renewal succeeds
		s.store.request("extend", lost)
		<-time.After(time.Minute)
		return nil
	},
	"loss": func(s *held) error {
		if state, err := s.store.Store.Inspect(context.Background(), "job"); err == nil && len(state.Holds) > 0 {
			s.store.breakJob()
		}
		return s.h.Check(context.Background())
	},
}

// after contains what a caller sees after an event: the error of the method, the cause of the
// lock's end, and whether the name is taken in the store.
type after struct {
	err, cause error
	taken      bool
}

var (
	unchanged = after{nil, nil, true}
	wasLost   = after{padlock.ErrLost, padlock.ErrLost, false}
	wasFreed  = after{padlock.ErrReleased, padlock.ErrReleased, false}
	freed     = after{nil, padlock.ErrReleased, false}
	ranOut    = after{nil, padlock.ErrLost, false}
)

// transitions is the table in hold.go.
var transitions = map[string]map[string]after{
	"held": {
		"Release": freed, "Close": freed, "Export": unchanged, "Promote": unchanged, "Check": unchanged, "time": ranOut, "loss": wasLost,
	},
	"renewing": {
		"Release": freed, "Close": freed, "Export": unchanged, "Promote": unchanged, "Check": unchanged, "time": ranOut, "loss": wasLost,
	},
	"converting": {
		"Release": freed, "Close": freed, "Export": unchanged, "Promote": unchanged, "Check": unchanged, "time": ranOut, "loss": wasLost,
	},
	"exported": {
		"Release": freed, "Close": {nil, padlock.ErrClosed, true}, "Export": unchanged,
		"Promote": {padlock.ErrInvalid, nil, true}, "Check": unchanged, "time": ranOut, "loss": wasLost,
	},
	"releasing": {
		"Release": freed, "Close": freed, "Export": wasFreed, "Promote": wasFreed, "Check": wasFreed, "time": freed, "loss": wasFreed,
	},
	"over": {
		"Release": wasLost, "Close": ranOut, "Export": wasLost, "Promote": wasLost, "Check": wasLost, "time": ranOut, "loss": wasLost,
	},
	"released": {
		"Release": freed, "Close": freed, "Export": wasFreed, "Promote": wasFreed, "Check": wasFreed, "time": freed, "loss": wasFreed,
	},
}

func TestEachTransitionOfAHold(t *testing.T) {
	for state, enter := range statesOfAHold {
		for event, do := range eventsOfAHold {
			t.Run(state+", "+event, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &held{store: newRemote(), gate: make(chan struct{})}
					s.l = padlock.New(s.store, padlock.KeepStoreOpen(), padlock.Observe(padlock.ObserverFunc(s.rec.on)))
					s.h = acquire(t, s.l, "job")
					enter(t, s)
					result := make(chan error, 1)
					go func() { result <- do(s) }()
					synctest.Wait()
					close(s.gate)
					err := <-result
					synctest.Wait()
					want := transitions[state][event]
					if !errors.Is(err, want.err) {
						t.Errorf("%s returned %v, want %v", event, err, want.err)
					}
					if cause := context.Cause(s.h.Context()); !errors.Is(cause, want.cause) {
						t.Errorf("the cause is %v, want %v", cause, want.cause)
					}
					if taken := !free(t, s.store, "job"); taken != want.taken {
						t.Errorf("the name is taken: %v", taken)
					}
					s.store.heal()
					s.l.Close(context.Background())
					wellFormed(t, s.rec.all())
				})
			})
		}
	}
}

// If a lock ends while the reply to a Check is on its way, Check returns the reason. No event of
// the hold follows the event that reports the end.
func TestCheckOfALockThatEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		s := newRemote()
		l := newLocker(t, s, padlock.Observe(padlock.ObserverFunc(rec.on)))
		h := acquire(t, l, "job", padlock.TTL(time.Second), padlock.NoRenewal())
		key, err := h.Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Store.Convert(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf(key.Token()), Shared: true, TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		s.reply("extend", takes(2*time.Second))
		wantOnly(t, h.Check(t.Context()), "check", padlock.ErrLost, padlock.ErrExpired)
		if all := rec.all(); all[len(all)-1].Kind != padlock.EventEnded {
			t.Errorf("the last event is %v", all[len(all)-1].Kind)
		}
		h.Release()
	})
}
