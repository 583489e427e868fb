// Package newest lets the newest caller have its turn first, as deploys and previews need it: each new
// version makes the one that waits pointless.
//
// An arrival asks the holder to finish early (padlock.Asked), and takes the turn of all who arrived
// before it and still wait. An older caller is dropped, with [ErrSuperseded], when a newer one has got
// the lock, and not when it arrives. So the last one that lives always runs, even if newer ones were
// cancelled or killed before they got the lock. At most one runs at a time, as with every lock.
//
// A caller that was paused or cut off from the store for 50 seconds is dropped, too: it cannot know
// whether a newer one has had the lock.
//
// It is for work that only the newest version of is wanted. For work that each caller must do, use
// padlock.Locker.Do instead; to keep one caller waiting and refuse the others, padlock.MaxWaiters(1).
//
// The functions need a store with fences and shared locks whose holders can be seen and broken;
// otherwise the error is errors.ErrUnsupported. All callers of a name must use this package.
package newest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// ErrSuperseded means that a newer caller has got the lock, so this one was dropped.
var ErrSuperseded = errors.New("newest: a newer caller has got the lock")

// Beside the lock on a name there are four others, in the same store:
//
//	number    its fence is the number of an arrival: each arrival takes it once, and releases it
//	waiting   each caller that waits has it, shared; the label is its number. It ends when the caller dies
//	last 0,   the greater label is the number of the newest caller that got the lock. It is kept for
//	last 1    keepLast. There are two, so that the greater one stays while the other is written
//
// A caller that gets the lock looks at the other two, while it has the lock:
//
//	last has a greater number       a newer one has had the lock: the caller is dropped
//	waiting has a greater number    a newer one lives: the caller gives the lock up, and waits until that
//	                                one has got it or has gone
//	neither                         the caller writes its number into the smaller last, and has its turn
//
// Nobody else has the lock meanwhile, so last only grows. Each caller that waits looks at last once a
// second, and so within keepLast. One that could not look for that long, because it was paused or cut
// off, cannot know whether a newer one has had the lock, and is dropped.
const (
	look     = time.Second
	keepLast = 50 * time.Second // below the longest lease of a Redis with its default
)

// Acquire takes the lock on name as padlock.Locker.Acquire does, for the newest caller. With Shared,
// Slots or Token, the error is padlock.ErrInvalid.
func Acquire(ctx context.Context, l *padlock.Locker, name string, opts ...padlock.Option) (*padlock.Lock, error) {
	c := &caller{l: l, name: name}
	if err := c.arrive(ctx); err != nil {
		return nil, err
	}
	defer c.mark.Release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go c.watch(ctx, stop)
	for {
		lock, err := c.take(ctx, opts)
		switch {
		case errors.Is(context.Cause(ctx), ErrSuperseded) && lock == nil:
			return nil, ErrSuperseded
		case lock != nil || err != nil:
			return lock, err
		}
	}
}

// take gets the lock, and returns it if it is this caller's turn. If a newer caller waits, take gives the
// lock up, and returns no lock when that one has got it or has gone.
func (c *caller) take(ctx context.Context, opts []padlock.Option) (*padlock.Lock, error) {
	lock, err := c.l.Acquire(ctx, c.name, opts...)
	if err != nil {
		return nil, err
	}
	mine, err := c.isTurn(ctx, lock)
	if mine && err == nil {
		return lock, nil
	}
	if released := lock.Release(); err == nil && released != nil && !errors.Is(released, padlock.ErrExpired) && !errors.Is(released, padlock.ErrLost) {
		err = released
	}
	if err != nil {
		return nil, err
	}
	return nil, c.awaitNewer(ctx)
}

// Do calls fn under the lock, as padlock.Locker.Do does. The context of fn ends when ctx ends or the
// lock is over. padlock.Asked tells fn when a newer caller has arrived.
func Do(ctx context.Context, l *padlock.Locker, name string, fn func(ctx context.Context) error, opts ...padlock.Option) (err error) {
	lock, err := Acquire(ctx, l, name, opts...)
	if err != nil {
		return err
	}
	inside, cancel := lock.Join(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, lock.Release())
	}()
	return fn(inside)
}

type caller struct {
	l      *padlock.Locker
	name   string
	number uint64
	mark   *padlock.Lock // the caller's share of "waiting"
	looked atomic.Int64  // when this caller last saw "last", or no newer one had a number, in nanoseconds of the wall clock
	missed atomic.Bool   // it could not see it for keepLast
}

func (c *caller) other(what string) string { return fast.NewestName(c.name, what) }

// arrive gets a number, makes the mark of a caller that waits, and asks the holder to leave.
func (c *caller) arrive(ctx context.Context) error {
	g := c.l.Guarantees()
	if g.Fence == driver.FenceNone || !g.Shared || g.Bound != driver.BoundToNothing && !g.Detached {
		return fmt.Errorf("newest: %w", errors.ErrUnsupported)
	}
	one, err := c.l.Acquire(ctx, c.other("number"))
	if err != nil {
		return err
	}
	c.number = one.Fence()
	c.looked.Store(time.Now().UnixNano()) // before the release, there is no newer number
	if err := one.Release(); err != nil {
		return err
	}
	if c.mark, err = c.l.Acquire(ctx, c.other("waiting"), padlock.Shared(), padlock.Label(strconv.FormatUint(c.number, 10))); err != nil {
		return err
	}
	_, _ = c.l.Ask(ctx, c.name, "a newer caller waits") // the holder may have left, or may have been asked already
	return nil
}

// watch ends the wait when a newer caller has got the lock.
func (c *caller) watch(ctx context.Context, stop context.CancelCauseFunc) {
	for pause(ctx) {
		if _, last, err := c.last(ctx); err == nil && last.number > c.number {
			stop(ErrSuperseded)
		}
	}
}

// A record is one of the two locks "last".
type record struct {
	what          string
	number, fence uint64 // 0 if nobody has written it, or its time is over
}

// last returns the two records, the one with the smaller number first.
func (c *caller) last(ctx context.Context) (smaller, greater record, err error) {
	began := time.Now()
	found := [2]record{{what: "last 0"}, {what: "last 1"}}
	for i := range found {
		r := &found[i]
		numbers, fence, err := c.numbers(ctx, r.what)
		if err != nil {
			return record{}, record{}, err
		}
		if r.fence = fence; len(numbers) > 0 {
			r.number = numbers[0]
		}
	}
	if before := c.looked.Swap(began.UnixNano()); time.Now().UnixNano()-before >= int64(keepLast) {
		c.missed.Store(true)
	}
	if found[0].number > found[1].number {
		return found[1], found[0], nil
	}
	return found[0], found[1], nil
}

// numbers returns the numbers in the labels of a lock.
func (c *caller) numbers(ctx context.Context, what string) (all []uint64, fence uint64, err error) {
	state, err := c.l.Inspect(ctx, c.other(what))
	for _, h := range state.Holds {
		number, _, _ := strings.Cut(h.Label, " ") // a padlock server adds who the client is
		if n, err := strconv.ParseUint(number, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all, state.Fence, err
}

// isTurn decides for the caller that has the lock.
func (c *caller) isTurn(ctx context.Context, lock *padlock.Lock) (bool, error) {
	smaller, last, err := c.last(ctx)
	switch {
	case err != nil:
		return false, err
	case last.number > c.number:
		return false, ErrSuperseded
	case c.missed.Load():
		return false, fmt.Errorf("%w, or may have got it while this one could not look", ErrSuperseded)
	}
	newer, err := c.newerWaits(ctx)
	if err != nil || newer {
		return false, err
	}
	return true, c.write(ctx, lock, smaller)
}

func (c *caller) newerWaits(ctx context.Context) (bool, error) {
	waiting, _, err := c.numbers(ctx, "waiting")
	for _, n := range waiting {
		if n > c.number {
			return true, err
		}
	}
	return false, err
}

// write writes the number of this caller into a record.
func (c *caller) write(ctx context.Context, lock *padlock.Lock, r record) error {
	if r.number != 0 {
		if _, err := c.l.Break(ctx, c.other(r.what), r.fence); err != nil {
			return err
		}
	}
	opts := []padlock.Option{padlock.Wait(0), padlock.TTL(keepLast), padlock.NoRenewal(), padlock.Detached(), padlock.Label(strconv.FormatUint(c.number, 10))}
	kept, err := c.l.Acquire(ctx, c.other(r.what), opts...)
	if err == nil {
		_, err = kept.Export(ctx) // so that nothing ends it before its lease
	}
	if err == nil {
		err = lock.Context().Err()
	}
	return err
}

// awaitNewer waits until no newer caller waits any more: it has got the lock, or has gone. While the
// store is out of reach, it goes on.
func (c *caller) awaitNewer(ctx context.Context) error {
	for pause(ctx) {
		if newer, err := c.newerWaits(ctx); err == nil && !newer {
			return nil
		}
	}
	return context.Cause(ctx)
}

func pause(ctx context.Context) bool {
	timer := time.NewTimer(look)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
