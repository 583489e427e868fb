package padlock

import (
	"context"
	"slices"
)

// TryDo is Do with Wait(0): it never waits. If the name is held, TryDo returns ErrHeld at once, and
// fn does not run. It is for work that another process does just as well, such as a job that every
// machine starts at the same time.
func (l *Locker) TryDo(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) error {
	return l.Do(ctx, name, fn, append(slices.Clip(opts), Wait(0))...)
}
