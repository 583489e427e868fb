package symfony

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

const (
	// poll is the longest pause before a waiter reads the row of a name again. PHP polls about as
	// often.
	poll = 100 * time.Millisecond
	// silence is how long a wait continues without any reply from the database.
	silence = 30 * time.Second
)

// Wait implements driver.Waiter. The table has no queue, so Wait ignores its last parameter. Wait
// looks at the name every 100 ms. It looks earlier if the lease ends or this process releases the
// name.
func (s *Store) Wait(ctx context.Context, r driver.Request, _ bool) (driver.Grant, error) {
	none := driver.Grant{}
	if err := s.validate(&r); err != nil {
		return none, err
	}
	_, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return none, err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	id := s.layout.storedID(s.engine, r.Name)
	released, remove := s.here.releaseSignal(id)
	defer remove()
	for answered := time.Now(); ; {
		is, err := s.glance(ctx, id)
		switch {
		case s.calls.Closing.Err() != nil:
			return none, driver.ErrClosed
		case ctx.Err() != nil:
			return none, ctx.Err()
		case err == nil && !is.live():
			return none, nil
		case err == nil:
			answered = time.Now()
		case time.Since(answered) > silence:
			return none, err
		}
		timer := time.NewTimer(nextLook(&is))
		select {
		case <-timer.C:
		case <-released:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// nextLook returns how long to sleep before the next look at a name. No waiter sleeps past the end
// of the lease that it waits for.
func nextLook(is *row) time.Duration {
	d := poll*9/10 + rand.N(poll/5)
	if is.live() && !is.endless {
		d = min(d, is.end.timeUntil(is.now)+time.Millisecond)
	}
	return max(d, time.Millisecond)
}
