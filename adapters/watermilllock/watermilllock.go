// Package watermilllock makes the handlers of watermill, on many servers, handle a message once,
// and messages of one key one at a time.
//
// Use it if the broker delivers a message twice, or to several servers, and the work must not be
// repeated or overlap. If the work is one transaction in a database, keep the message's id there
// instead: that holds on the worst day too.
//
//	router.AddMiddleware(
//		watermilllock.Once(locker, byUUID, time.Hour),  // drops a message that was handled before
//		watermilllock.OneAtATime(locker, byCustomer),   // one message of a customer at a time
//	)
//
// The context of a message ends when its lock is lost, and padlock.FenceFrom finds the fence in it.
package watermilllock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// OncePrefix is the beginning of the names of locks of Once.
const OncePrefix = "once:"

// Once returns a middleware that drops a message whose handler has succeeded less than window ago,
// on any server: it returns no messages and no error. key returns what the copies of a message have
// in common. If it is "", the message passes.
//
// If the handler of another copy is at work, Once returns padlock.ErrHeld, so that the message
// comes again. After an error of the handler, the message may be handled again at once. If the lock
// was lost during the work, Once returns padlock.ErrLost even if the handler has succeeded, because
// another server may have handled the message at the same time. It also returns an error if the
// Locker was closed during the work.
//
// watermill publishes the messages that a handler returns after Once has counted the message as
// handled. If that fails, or if the process dies meanwhile, watermill delivers the message again,
// and Once drops it: those messages are lost. Publish messages that must not get lost inside of the
// handler.
//
// The window is a cool-down of the lock, from 100 ms on most stores to 24 h. If the store has no
// cool-downs, the error is errors.ErrUnsupported, and the handler does not run. padlock.CoolDown
// and padlock.HoldAtLeast have no effect, neither among opts nor as defaults of l, because they
// would make a message count as handled although its handler has failed.
func Once(l *padlock.Locker, key func(*message.Message) string, window time.Duration, opts ...padlock.Option) message.HandlerMiddleware {
	opts = append(slices.Clone(opts), padlock.CoolDown(0), padlock.HoldAtLeast(0))
	g := l.Guarantees()
	wrong := driver.CheckKeep("the window of Once", window, &g) // Release would say so only after the work
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			name := key(m)
			if name == "" {
				return h(m)
			}
			if wrong != nil {
				return nil, wrong
			}
			lock, err := l.TryAcquire(m.Context(), OncePrefix+name, opts...)
			var held *padlock.HeldError
			switch {
			case errors.As(err, &held) && held.Cooling():
				return nil, nil // it was handled
			case err != nil:
				return nil, err
			}
			defer lock.Release() // after a panic
			out, err := underLock(lock, m, h)
			if err != nil {
				return out, errors.Join(err, finish(lock))
			}
			return out, finish(lock, padlock.CoolDown(window))
		}
	}
}

// OneAtATime returns a middleware that handles one message of a key at a time, on all servers. If
// key returns "", the message passes.
//
// A message waits for the lock until its context ends, or as long as padlock.Wait among opts
// allows. Then OneAtATime returns padlock.ErrHeld, so that the message comes again. If the lock did
// not last until the handler returned, OneAtATime returns an error such as padlock.ErrLost.
func OneAtATime(l *padlock.Locker, key func(*message.Message) string, opts ...padlock.Option) message.HandlerMiddleware {
	opts = slices.Clone(opts)
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			name := key(m)
			if name == "" {
				return h(m)
			}
			lock, err := l.Acquire(m.Context(), name, opts...)
			if err != nil {
				return nil, err
			}
			defer lock.Release() // after a panic
			out, err := underLock(lock, m, h)
			return out, errors.Join(err, finish(lock))
		}
	}
}

// underLock calls the handler. Meanwhile the context of the message ends with the lock.
func underLock(lock *padlock.Lock, m *message.Message, h message.HandlerFunc) ([]*message.Message, error) {
	before := m.Context()
	ctx, cancel := lock.Join(before)
	defer cancel()
	m.SetContext(ctx)
	defer m.SetContext(before)
	return h(m)
}

// finish releases the lock after the work. It returns an error if the lock did not last until then.
// If the store has merely not confirmed the release, the work is done, and finish returns nil. The
// Locker then repeats the release in the background.
func finish(lock *padlock.Lock, opts ...padlock.ReleaseOption) error {
	over := context.Cause(lock.Context()) // lost, or released by Locker.Close
	err := lock.Release(opts...)
	if errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired) || errors.Is(err, padlock.ErrMaxHold) {
		return err
	}
	return over
}
