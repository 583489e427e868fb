package register

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// watching is a Store whose register wakes waiters.
type watching struct {
	*Store
	w Watcher
}

var _ driver.Waiter = (*watching)(nil)

// Wait returns when another try may succeed; see driver.Waiter. There is no queue.
func (s *watching) Wait(ctx context.Context, r driver.Request, _ bool) (driver.Grant, error) {
	if err := r.Validate(&s.g); err != nil {
		return driver.Grant{}, err
	}
	for {
		c, err := s.begin(ctx, r.Name)
		if err != nil {
			return driver.Grant{}, err
		}
		w, err := c.get()
		if err != nil || !w.Excludes(hash(r.Token), r.Shared, w.now) {
			return driver.Grant{}, err
		}
		if err := s.watch(ctx, r.Name, w); err != nil {
			return driver.Grant{}, err
		}
	}
}

// watch returns nil when the record may have changed, or when the next hold ends.
func (s *watching) watch(ctx context.Context, name string, w *view) error {
	bounded, cancel := context.WithTimeout(ctx, w.NextEnd(w.now).Sub(w.now.At)+time.Millisecond)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := s.w.Watch(bounded, name, w.version)
	switch {
	case s.closed.Load():
		return driver.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && bounded.Err() == nil:
		return errors.Join(driver.ErrUnavailable, err)
	}
	return nil
}

// JoinFirst implements driver.Waiter: there is no queue.
func (s *watching) JoinFirst(string) bool { return false }
