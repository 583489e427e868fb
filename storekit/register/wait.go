package register

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Wait returns when another try may succeed; see driver.Waiter. There is no queue.
func (s *Store) Wait(ctx context.Context, r driver.Request, _ bool) (driver.Grant, error) {
	watcher, ok := s.r.(Watcher)
	if !ok {
		return driver.Grant{}, errors.ErrUnsupported
	}
	if err := r.Validate(&s.g); err != nil {
		return driver.Grant{}, err
	}
	last, early := "", 0 // the version of the last watch, and how many in a row ended at once
	for {
		c, err := s.begin(ctx, r.Name)
		if err != nil {
			return driver.Grant{}, err
		}
		w, err := c.get()
		if err != nil || !w.Excludes(hash(r.Token.Text()), r.Shared, w.now) {
			return driver.Grant{}, err
		}
		if early > 0 && w.version == last {
			// Or a service that ends each watch at once would be asked without end.
			if err := c.pause(early); err != nil {
				return driver.Grant{}, err
			}
		}
		start := time.Now()
		if err := s.watch(ctx, watcher, r.Name, w); err != nil {
			return driver.Grant{}, err
		}
		if early++; w.version != last || time.Since(start) > time.Second {
			early = 1
		}
		last = w.version
	}
}

// watch returns nil when the record may have changed, or when the next hold ends.
func (s *Store) watch(ctx context.Context, by Watcher, name string, w *view) error {
	bounded, cancel := context.WithTimeout(ctx, w.NextEnd(w.now).Sub(w.now.At)+time.Millisecond)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := by.Watch(bounded, s.opts.key(name), w.version)
	switch {
	case s.closed.Load():
		return driver.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && bounded.Err() == nil:
		return (&call{Store: s, ctx: ctx}).unavailable(err)
	}
	return nil
}
