package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Wait implements driver.Waiter. If reserve is true, the waiter gets a place in the queue of the
// name. The waiters of all processes are in one queue.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := r.Validate(&s.promises); err != nil {
		return driver.Grant{}, err
	}
	_, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	w := &waitCall{s: s, r: &r, reserve: reserve}
	g, err := w.run(ctx)
	if err != nil {
		w.leaveQueue(ctx)
		if s.calls.Closing.Err() != nil {
			err = driver.ErrClosed
		}
	}
	return g, err
}

// A waitCall is one call of Wait. If reserve is true, the waiter takes a place in the queue, and
// goes through these states:
//
//	state     event                                             next state
//	new       the waiter looks, and the name is free            held
//	new       the waiter looks; others have it or wait for it   placed
//	placed    a release hands the name over to the waiter       reserved
//	placed    the waiter looks, and it is its turn              held
//	placed    the waiter has not renewed its place in time      gone
//	reserved  the waiter claims the name                        held
//	reserved  MaxReservation passes before the waiter looks     gone
//
// A placed waiter has a place in the queue, which it renews from time to time. In the state "held",
// Wait returns the hold. If a reserved waiter cannot claim the name in one statement, Wait returns
// the reservation, and the caller claims it with Acquire. In the state "gone", Wait returns the zero
// Grant.
//
// A placed waiter sleeps between two looks, until its pause has ended. If a notification is lost,
// the waiter notices the change at the end of the pause. These events end the pause early:
//
//   - A notification with the fence 0 tells the waiter to look.
//   - The file has changed (sqlitewatch.go).
//   - This process has released the name.
//   - The name was reserved for the waiter directly ahead, and driver.MaxReservation has passed.
//   - The connection that listens for notifications is opened or lost.
//
// A notification for another waiter does not end the pause.
type waitCall struct {
	s       *Store
	r       *driver.Request
	reserve bool
	*localWaiter

	joined bool      // this wait has a place in the queue
	push   string    // the channel on which the database wakes this waiter; "" if this waiter polls
	renew  time.Time // when the place has to be renewed

	lastPos int           // how many waiters were ahead of this one at the last look
	moved   time.Time     // when lastPos last changed
	step    time.Duration // how long the queue took to move by one waiter
}

// silence is how long a wait continues without any reply from the database.
const silence = 30 * time.Second

func (w *waitCall) run(ctx context.Context) (driver.Grant, error) {
	token := opaque("")
	if w.reserve {
		token = opaque(w.r.Token.Text())
		defer w.s.wantNotifications()()
	}
	one, remove := w.s.local.add(w.r.Name, token)
	defer remove()
	w.localWaiter = one
	answered := time.Now()
	for {
		g, over, pause, err := w.lookOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return driver.Grant{}, ctx.Err()
		case err == nil && over:
			return g, nil
		case err == nil:
			answered = time.Now()
		case time.Since(answered) > silence:
			return driver.Grant{}, err
		default:
			pause = time.Second
		}
		if g, over, err := w.sleepUntilLook(ctx, pause); over || err != nil {
			return g, err
		}
	}
}

// sleepUntilLook sleeps until the waiter should look at the name again. If the name is reserved for
// this waiter meanwhile, it returns the grant that Wait must return, and finished is true.
func (w *waitCall) sleepUntilLook(ctx context.Context, pause time.Duration) (g driver.Grant, finished bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return g, false, ctx.Err()
		case fence := <-w.to:
			return w.claim(ctx, driver.Grant{Fence: fence, TTL: driver.MaxReservation, Shared: w.r.Shared}), true, nil
		case <-w.next: // the waiter before this one may be dead
			timer.Reset(driver.MaxReservation + 20*time.Millisecond)
		case <-w.localWaiter.look:
			return g, false, nil
		case <-timer.C:
			return g, false, nil
		}
	}
}

// claim claims a reservation in one statement, and returns the hold. If that is not possible, it
// returns the reservation, which the caller of Wait claims with Acquire.
func (w *waitCall) claim(ctx context.Context, reserved driver.Grant) driver.Grant {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	sent := w.s.clock.Now()
	g, ok, err := w.s.rows.claimHold(ctx, w.r)
	if !ok || err != nil {
		return reserved
	}
	g.From = sent
	return g
}

// lookOnce looks at the name once. finished is true if Wait has to return g now. Otherwise the
// waiter sleeps for the pause.
func (w *waitCall) lookOnce(ctx context.Context) (g driver.Grant, finished bool, pause time.Duration, err error) {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	if !w.joined && w.reserve {
		return w.joinQueue(ctx, nil)
	}
	st, now, err := w.s.rows.peekState(ctx, w.r.Name)
	if err != nil {
		return g, false, 0, dbms.Failure(ctx, err, false)
	}
	st.trim(now)
	var read *loadedState
	if st.version > 0 {
		read = &loadedState{st, now}
	}
	if w.reserve && (time.Now().After(w.renew) || w.push != w.s.local.pushChannel()) {
		return w.joinQueue(ctx, read)
	}
	free := !st.Excludes(w.r.Token.Text(), w.r.Shared, at(now))
	if !w.reserve {
		return g, free, headPause, nil
	}
	ahead := st.aheadOf(opaque(w.r.Token.Text()))
	if st.Live(w.r.Token.Text(), at(now)) == nil && ahead < len(st.queue) && !(free && st.isTurn(ahead, now)) {
		return g, false, w.pauseAt(st, ahead, now), nil
	}
	return w.joinQueue(ctx, read) // either it is this waiter's turn, or its place is gone
}

// joinQueue takes or renews this waiter's place in the queue. If it is this waiter's turn,
// joinQueue acquires the name instead, and finished is true. If the caller has read the state of
// the name already, it passes that state. Otherwise it passes nil.
func (w *waitCall) joinQueue(ctx context.Context, known *loadedState) (g driver.Grant, finished bool, pause time.Duration, err error) {
	var gone bool
	push := w.s.local.pushChannel()
	sent := w.s.clock.Now()
	token := opaque(w.r.Token.Text())
	st, res, now, err := w.s.changeRowFrom(ctx, w.r.Name, known, func(st *state, now decide.Time) result {
		if h := st.Live(w.r.Token.Text(), at(now)); h != nil {
			return result{hold: h}
		}
		ahead := st.aheadOf(token)
		if gone = w.joined && ahead == len(st.queue); gone {
			return result{} // the place has lapsed, or a reservation for this waiter has lapsed
		}
		if !st.Excludes(w.r.Token.Text(), w.r.Shared, at(now)) && st.isTurn(ahead, now) {
			before := st.Fence
			h, err := st.acquire(w.r, now)
			return result{hold: h, write: err == nil, grant: st.Fence != before, err: err}
		}
		st.join(w.r, push, now)
		return result{write: true, quiet: true}
	})
	switch {
	case errors.Is(err, errRowLocked): // a transaction keeps the name
		return g, false, headPause, nil
	case err != nil:
		return g, false, 0, err
	case gone:
		return g, true, 0, nil
	case res.hold != nil && res.hold.Reserved:
		return w.claim(ctx, driver.Grant{Fence: res.hold.Fence, TTL: min(res.hold.Until.Sub(now), driver.MaxReservation), Shared: res.hold.Shared}), true, 0, nil
	case res.hold != nil:
		return driver.Grant{Fence: res.hold.Fence, From: sent, TTL: res.hold.Until.Sub(now), Shared: res.hold.Shared}, true, 0, nil
	}
	return g, false, w.notePlaced(st, st.aheadOf(token), push, now), nil
}

// notePlaced records that this waiter has a place in the queue, and returns how long the waiter
// sleeps. The argument position is the number of waiters before it.
func (w *waitCall) notePlaced(st *state, position int, push string, now decide.Time) time.Duration {
	w.joined, w.push = true, push
	w.renew = time.Now().Add(placeFor / 2)
	return w.pauseAt(st, position, now)
}

const (
	headPause = 70 * time.Millisecond // longest pause of the first waiter, if nothing wakes it
	// nextPause is the longest pause of the second waiter. It is also the longest pause of a reader
	// that has only readers before it.
	nextPause = 300 * time.Millisecond
	pushPause = 2 * time.Second  // longest pause of the first waiter, if the database wakes it
	lastPause = 12 * time.Second // longest pause of all other waiters
)

// pauseAt returns how long a waiter sleeps. position is the number of waiters before it. The first
// waiter looks often. The others look often enough to notice that they have become the first. A
// waiter looks less often if more waiters are before it, and if the queue moves more slowly. The
// first waiter does not sleep past the end of the lease that it waits for.
func (w *waitCall) pauseAt(st *state, position int, now decide.Time) time.Duration {
	if position != w.lastPos || w.moved.IsZero() {
		if steps := w.lastPos - position; steps > 0 {
			w.step = time.Since(w.moved) / time.Duration(steps)
		}
		w.lastPos, w.moved = position, time.Now()
	}
	w.s.local.noteAhead(w.localWaiter, position)
	switch {
	case w.push != "":
		return max(w.wokenPause(st, position, now), headPause)
	case w.s.local.watched():
		return max(w.wokenPause(st, position, now), time.Millisecond)
	}
	if position == 0 {
		d := headPause
		if end := st.NextEnd(at(now)); end != 0 {
			d = min(d, end.Sub(now)+time.Millisecond)
		}
		return max(d, time.Millisecond)
	}
	most := lastPause
	switch {
	case position == 1 || st.readsNow(position):
		most = nextPause
	case position < 4: // the queue may soon move much faster than it has so far
		most = time.Duration(position) * nextPause
	}
	step := max(w.step, time.Since(w.moved))
	return min(max(time.Duration(position)*step/3, headPause), most)
}

// wokenPause returns how long a waiter sleeps if nothing wakes it. It is for waiters that a
// notification or a change of the file can wake.
//
// The first waiter may take the name when the lease ends, so it does not sleep longer. Each waiter
// ahead may be dead, and then keeps the name reserved for driver.MaxReservation. So the sleep is
// longer by driver.MaxReservation for each waiter ahead. The sleep also has a limit, because a
// holder may have died or a notification may have been lost.
func (w *waitCall) wokenPause(st *state, position int, now decide.Time) time.Duration {
	d := lastPause
	if position == 0 {
		d = pushPause
	}
	missed := time.Duration(position) * driver.MaxReservation
	if end := st.NextEnd(at(now)); end != 0 {
		d = min(d, end.Sub(now)+missed+time.Millisecond)
	}
	if st.free != 0 {
		d = min(d, st.free.Sub(now)+missed+time.Millisecond)
	}
	return d
}

// leaveQueue gives up the place in the queue, even if ctx has ended. If the server cannot be
// reached, leaveQueue tries again for a while, because an abandoned place delays others for up to
// placeFor.
func (w *waitCall) leaveQueue(ctx context.Context) {
	if !w.reserve {
		return
	}
	ctx, cancel := dbms.Bound(context.WithoutCancel(ctx))
	defer cancel()
	for try := 0; ; try++ {
		_, _, _, err := w.s.changeRow(ctx, w.r.Name, func(st *state, now decide.Time) result {
			st.release(w.r.Token.Text(), 0, now)
			return result{write: true}
		})
		if err == nil || !dbms.Pause(ctx, try) {
			return
		}
	}
}
