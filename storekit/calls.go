package storekit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Patience is how long a caller waits for a silent server.
const Patience = driver.MaxSilence - 500*time.Millisecond

// Calls counts the calls of one store, and the goroutines that the store has started. Close of the
// store calls End, ends what its calls wait for, and then calls Work.Wait:
//
//	Acquire, Extend, …   Do(ctx, &calls, func() …)     bounded in time, even if ctx is not
//	a client obeys ctx   Enter(ctx, limit) … done()    bounded by limit
//	Wait                 Begin(ctx) … Work.Done()      waits for as long as ctx allows
//	a goroutine          Work.Go(func() …)             ends when Closing is canceled
type Calls struct {
	Work    sync.WaitGroup  // counts the calls and the goroutines
	Closing context.Context // canceled by End

	end    context.CancelFunc
	mu     sync.Mutex // guards closed, and additions to Work
	closed bool
}

// Open makes c ready for calls.
func (c *Calls) Open() {
	c.Closing, c.end = context.WithCancel(context.Background())
}

// Begin registers a call, which must end with Work.Done. If End was called before, Begin returns
// driver.ErrClosed. If ctx has ended, Begin returns the error of ctx.
func (c *Calls) Begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Work.Add(1)
	return nil
}

// Enter is like Begin. It returns a context that limit has bounded. The call must end with done.
func (c *Calls) Enter(ctx context.Context, limit func(context.Context) (context.Context, context.CancelFunc)) (bounded context.Context, done func(), err error) {
	if err := c.Begin(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := limit(ctx)
	return bounded, func() { cancel(); c.Work.Done() }, nil
}

// End makes Begin refuse new calls, and cancels the context Closing, so that running calls can end
// early. It reports whether this was the first call of End.
//
// The caller of End must then wait for the running calls with Work.Wait. If a running call waits
// for something and ignores Closing, the caller must end that wait first.
func (c *Calls) End() (isFirst bool) {
	c.mu.Lock()
	isFirst = !c.closed
	c.closed = true
	c.mu.Unlock()
	c.end()
	return isFirst
}

// Go runs f in the background. After End it only returns false.
func (c *Calls) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.Work.Go(f)
	}
	return !c.closed
}

// AfterClose returns err, wrapped in driver.ErrClosed if End was called. If err is nil, AfterClose
// returns nil.
func (c *Calls) AfterClose(err error) error {
	if err != nil && c.Closing.Err() != nil && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	return err
}

// Do runs op, which sends one or more statements, as one call. Do returns early if ctx ends, or
// when Patience is over. Then op goes on in the background, because a statement that was sent
// cannot be cancelled without ending its connection.
func Do[T any](ctx context.Context, c *Calls, op func() (T, error)) (T, error) {
	var zero T
	if err := c.Begin(ctx); err != nil {
		return zero, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer c.Work.Done()
		v, err := op()
		done <- result{v, err}
	}()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, c.AfterClose(r.err)
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %w", driver.ErrUncertain, ctx.Err())
	case <-timer.C:
		return zero, fmt.Errorf("%w: the server is silent", driver.ErrUncertain)
	}
}

// Await waits until no other goroutine has the turn, and then gives the turn to the caller. The
// channel must have the capacity 1. It contains a value while a goroutine has the turn, so the
// caller must receive from the channel when its turn ends. If the caller does not get the turn
// within Patience, Await returns driver.ErrUnavailable. If ctx ends first, Await returns the error
// of ctx.
func Await(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: another operation on this lock has not ended", driver.ErrUnavailable)
	}
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Regularly calls f until ctx ends. The first call comes after 10 to 20 s. Each later pause lasts a
// quarter to a half of the given duration. The pauses differ, so that processes which started
// together do not work at the same time.
func Regularly(ctx context.Context, every time.Duration, f func()) {
	pause := 10*time.Second + rand.N(10*time.Second)
	for Sleep(ctx, pause) {
		f()
		pause = every/4 + rand.N(every/4)
	}
}
