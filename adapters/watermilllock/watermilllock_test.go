package watermilllock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/watermilllock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/padlocktest"
)

func byUUID(m *message.Message) string { return m.UUID }

// deliver gives a message with this UUID to a handler.
func deliver(h message.HandlerFunc, uuid string) error {
	_, err := h(message.NewMessage(uuid, nil))
	return err
}

// twoServers returns the Lockers of two servers.
func twoServers(t *testing.T) (a, b *padlock.Locker, script *padlocktest.Script) {
	a, script = padlocktest.New(t)
	b = padlock.New(script.Peer())
	t.Cleanup(func() { b.Close(context.Background()) })
	return a, b, script
}

// A message whose handler has failed is handled again. watermill's Deduplicator would drop it.
func TestAFailedMessageComesAgain(t *testing.T) {
	a, b, _ := twoServers(t)
	tries := 0
	h := func(*message.Message) ([]*message.Message, error) {
		if tries++; tries == 1 {
			return nil, errors.New("the database is away")
		}
		return nil, nil
	}
	if err := deliver(watermilllock.Once(a, byUUID, time.Minute)(h), "1"); err == nil {
		t.Error("the error of the handler is gone")
	}
	for range 3 {
		if err := deliver(watermilllock.Once(b, byUUID, time.Minute)(h), "1"); err != nil {
			t.Error(err)
		}
	}
	if tries != 2 {
		t.Errorf("%d tries, want 2", tries)
	}
}

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := twoServers(t)
		handled := 0
		var onB message.HandlerFunc
		onA := watermilllock.Once(a, byUUID, time.Hour)(func(m *message.Message) ([]*message.Message, error) {
			handled++
			if m.UUID == "1" { // meanwhile the same message arrives at the other server
				if err := deliver(onB, "1"); !errors.Is(err, padlock.ErrHeld) {
					t.Errorf("a copy during the work: %v", err)
				}
			}
			return []*message.Message{m}, nil
		})
		onB = watermilllock.Once(b, byUUID, time.Hour)(func(*message.Message) ([]*message.Message, error) {
			t.Error("the other server has handled the message too")
			return nil, nil
		})
		if out, err := onA(message.NewMessage("1", nil)); err != nil || len(out) != 1 {
			t.Error(out, err)
		}
		if err := deliver(onB, "1"); err != nil {
			t.Errorf("a copy after the work: %v", err)
		}
		deliver(onA, "") // messages without a key
		deliver(onA, "")
		<-time.After(time.Hour + time.Second)
		deliver(onA, "2")
		if handled != 4 {
			t.Errorf("handled %d times", handled)
		}
	})
}

// The lock is lost during the work: the context of the message ends, and the message comes again.
func TestLoss(t *testing.T) {
	for what, with := range map[string]func(*padlock.Locker) message.HandlerMiddleware{
		watermilllock.OncePrefix: func(l *padlock.Locker) message.HandlerMiddleware { return watermilllock.Once(l, byUUID, time.Hour) },
		"":                       func(l *padlock.Locker) message.HandlerMiddleware { return watermilllock.OneAtATime(l, byUUID) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l, script := padlocktest.New(t)
			m := message.NewMessage("1", nil)
			before := m.Context()
			_, err := with(l)(func(m *message.Message) ([]*message.Message, error) {
				if fence, _ := padlock.FenceFrom(m.Context()); fence == 0 {
					t.Error("the message has no fence")
				}
				script.Lose(what + "1")
				<-m.Context().Done()
				if err := context.Cause(m.Context()); !errors.Is(err, padlock.ErrLost) {
					t.Error(err)
				}
				return nil, nil
			})(m)
			if !errors.Is(err, padlock.ErrLost) || m.Context() != before {
				t.Errorf("%q: %v", what, err)
			}
		})
	}
}

// A message whose handler has failed comes again, whatever the defaults of the Locker and the
// options say.
func TestOnceKeepsNoFailedMessage(t *testing.T) {
	for what, fail := range map[string]func(*padlock.Locker) error{
		"the handler fails": func(*padlock.Locker) error { return errors.New("the database is away") },
		"the Locker is closed before": func(l *padlock.Locker) error {
			return errors.Join(errors.New("the process ends"), l.Close(context.Background()))
		},
		"the Locker is closed, and the handler returns early": func(l *padlock.Locker) error { return l.Close(context.Background()) },
	} {
		t.Run(what, func(t *testing.T) {
			script := padlocktest.NewScript()
			a := padlock.New(script, padlock.KeepStoreOpen(), padlock.HoldAtLeast(time.Hour))
			b := padlock.New(script.Peer())
			defer b.Close(context.Background())
			defer a.Close(context.Background())
			once := watermilllock.Once(a, byUUID, time.Hour, padlock.CoolDown(time.Hour))
			h := once(func(*message.Message) ([]*message.Message, error) { return nil, fail(a) })
			if err := deliver(h, "1"); err == nil {
				t.Error("the message counts as handled")
			}
			handled := 0
			h = watermilllock.Once(b, byUUID, time.Hour)(func(*message.Message) ([]*message.Message, error) {
				handled++
				return nil, nil
			})
			if err := deliver(h, "1"); err != nil || handled != 1 {
				t.Errorf("%v, handled %d times", err, handled)
			}
		})
	}
}

// The store does not confirm the release after the work. The message is done all the same.
func TestAReleaseWithoutConfirmation(t *testing.T) {
	for what, with := range map[string]func(*padlock.Locker) message.HandlerMiddleware{
		"Once":       func(l *padlock.Locker) message.HandlerMiddleware { return watermilllock.Once(l, byUUID, time.Hour) },
		"OneAtATime": func(l *padlock.Locker) message.HandlerMiddleware { return watermilllock.OneAtATime(l, byUUID) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l, script := padlocktest.New(t)
			err := deliver(with(l)(func(*message.Message) ([]*message.Message, error) {
				script.Fail(padlocktest.Release, 3, padlock.ErrUncertain)
				return nil, nil
			}), "1")
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// noCoolDowns is a store without cool-downs.
type noCoolDowns struct{ padlock.Store }

func (s noCoolDowns) Guarantees() padlock.Guarantees {
	g := s.Store.Guarantees()
	g.CoolDown = false
	return g
}

func TestAWindowThatIsNotPossible(t *testing.T) {
	for _, c := range []struct {
		store  padlock.Store
		window time.Duration
		want   error
	}{
		{padlocktest.NewScript(), 25 * time.Hour, padlock.ErrInvalid},
		{noCoolDowns{padlocktest.NewScript()}, time.Hour, errors.ErrUnsupported},
	} {
		l := padlock.New(c.store)
		defer l.Close(context.Background())
		err := deliver(watermilllock.Once(l, byUUID, c.window)(func(*message.Message) ([]*message.Message, error) {
			t.Error("the handler ran")
			return nil, nil
		}), "1")
		if !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, script := twoServers(t)
		var inside, done atomic.Int32
		work := func(m *message.Message) ([]*message.Message, error) {
			if inside.Add(1) > 1 && m.UUID != "" {
				safety.TwoHold(t, "two messages at once")
			}
			<-time.After(time.Second)
			inside.Add(-1)
			done.Add(1)
			return nil, nil
		}
		onA, onB := watermilllock.OneAtATime(a, byUUID)(work), watermilllock.OneAtATime(b, byUUID, padlock.Wait(100*time.Millisecond))(work)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := deliver(onA, "customer:7"); err != nil {
					t.Error(err)
				}
			})
		}
		<-time.After(10 * time.Millisecond)
		if err := deliver(onB, "customer:7"); !errors.Is(err, padlock.ErrHeld) {
			t.Error(err)
		}
		wg.Wait()
		for range 2 {
			wg.Go(func() { deliver(onA, "") })
		}
		wg.Wait()
		if done.Load() != 5 {
			t.Errorf("%d messages were handled", done.Load())
		}
		m := message.NewMessage("customer:8", nil) // the router stops while the message waits
		ctx, cancel := context.WithCancel(t.Context())
		m.SetContext(ctx)
		defer script.Hold("customer:8", padlock.Hold{})()
		time.AfterFunc(time.Second, cancel)
		if _, err := onA(m); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A handler panics: the lock is free again, and the message is not counted as handled.
func TestPanic(t *testing.T) {
	l, _ := padlocktest.New(t)
	for what, with := range map[string]message.HandlerMiddleware{
		"Once": watermilllock.Once(l, byUUID, time.Hour), "OneAtATime": watermilllock.OneAtATime(l, byUUID, padlock.Wait(0)),
	} {
		panics := true
		h := with(func(*message.Message) ([]*message.Message, error) {
			if panics {
				panic("a bug")
			}
			panics = true
			return nil, nil
		})
		func() {
			defer func() { recover() }()
			deliver(h, "1")
		}()
		panics = false
		if err := deliver(h, "1"); err != nil || !panics {
			t.Errorf("%s: %v, ran again: %v", what, err, panics)
		}
	}
}
