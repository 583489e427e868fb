package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// lastLook checks the names after all workers have ended. A name must be free when the longest
// lease is over. lastLook takes and releases the name. Then the name must be free at once. If all
// names were checked while the workers rested, lastLook only checks that nothing is left.
func (r *Run) lastLook(ctx context.Context, rested bool) error {
	locker, err := r.openAtEnd(ctx)
	if err != nil {
		return fmt.Errorf("the last look: %w", err)
	}
	if err := r.await(ctx, locker); err != nil {
		r.monitor.Log(Event{Op: Broken, Worker: engine, At: clockNow(), Err: "I6 the store does not come back: " + err.Error()})
	}
	if !rested {
		r.lookAtAll(ctx, locker)
	}
	r.nothingLeft(ctx, locker)
	return locker.Close(ctx)
}

// openAtEnd opens the store in the configuration of the last stage.
func (r *Run) openAtEnd(ctx context.Context) (*padlock.Locker, error) {
	config := ""
	if n := len(r.Stages); n > 0 {
		config = r.Stages[n-1][0]
	}
	store, err := openPatiently(ctx, r.Open, config, always)
	if err != nil {
		return nil, err
	}
	return padlock.New(store, padlock.TTL(r.Load.MaxTTL)), nil
}

// lookAtAll calls lookAt for all names, a few at the same time.
func (r *Run) lookAtAll(ctx context.Context, l *padlock.Locker) {
	names := make(chan string)
	begun := clockNow()
	var bad atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for name := range names {
				if bad.Load() < maxBadNames && !r.lookAt(ctx, l, name, begun) {
					bad.Add(1)
				}
			}
		})
	}
	for _, name := range r.namesToLookAt() {
		names <- name
	}
	close(names)
	all.Wait()
}

// await waits until the store grants locks. After a restart that may take a while.
func (r *Run) await(ctx context.Context, l *padlock.Locker) error {
	for end := time.Now().Add(answerPatience); ; {
		lock, err := l.Acquire(ctx, r.Load.Prefix+"gate", padlock.Wait(time.Second))
		if err == nil {
			lock.Release() // the checks find out whether the release worked
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// firstLook waits until the store is ready, and reads its Guarantees.
func (r *Run) firstLook(ctx context.Context) error {
	config := ""
	if len(r.Stages) > 0 {
		config = r.Stages[len(r.Stages)/2][0] // if the locks move from one store to another, the middle stage uses both stores
	}
	store, err := openPatiently(ctx, r.Open, config, always)
	if err != nil {
		return err
	}
	r.Guarantees = store.Guarantees()
	fit := r.Load.fitTo(&r.Guarantees) // the engine takes locks, too, and waits for those of dead workers
	r.Load.MinTTL, r.Load.MaxTTL = fit.MinTTL, fit.MaxTTL
	locker := padlock.New(store, padlock.TTL(r.Load.MaxTTL))
	return errors.Join(r.await(ctx, locker), locker.Close(ctx))
}

// maxBadNames is the number of bad names after which the check stops.
const maxBadNames = 3

// namesToLookAt returns all names that a worker has asked for, and those that workers wait for
// without an event. Some of them were used by a single worker, which was killed. They show whether
// the store still holds a lock for a killed worker.
func (r *Run) namesToLookAt() []string {
	names := append(busyNames(r.Load.Prefix), electionName(r.Load.Prefix))
	for _, e := range r.monitor.history() {
		switch {
		case e.Slots > 0:
			names = append(names, e.slotNames()...)
		case isPath(e.Name):
			names = append(names, withFolders(e.Name)...)
		case e.Name != "":
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lookAt checks that a name is free, logs a violation if it is not, and reports whether it is.
func (r *Run) lookAt(ctx context.Context, l *padlock.Locker, name string, begun int64) bool {
	patience := max(0, r.Load.MaxTTL+time.Second-time.Duration(clockNow()-begun)) + time.Second
	patience += r.delayOfDead(ctx, l, name) + r.coarse()
	if r.Guarantees.Observed {
		patience += r.Load.MaxTTL // this process looks at the name for the first time
	}
	call := clockNow()
	broken := func(what string, err error) bool {
		r.monitor.Log(Event{Op: Broken, Worker: engine, Call: call, At: clockNow(), Name: name, Err: what + ": " + err.Error()})
		return false
	}
	lock, err := r.askUntilGranted(ctx, patience, func() (*padlock.Lock, error) { return l.Acquire(ctx, name, padlock.Wait(patience)) })
	if err != nil {
		return broken("I6 not to be had although no worker has it or waits for it", err)
	}
	switch err := lock.Release(); {
	case err == nil:
	case lock.Remaining() > 0 && (errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired)):
		return broken("I8 the last release", err)
	default:
		return true // the machine is busy, so an unknown outcome proves nothing
	}
	if lock, err = r.askUntilGranted(ctx, 0, func() (*padlock.Lock, error) { return l.TryAcquire(ctx, name) }); err != nil {
		return broken("I8 released, and held all the same", err)
	}
	_ = lock.Release() // if this release fails, the function nothingLeft notices it
	return true
}

// coarse returns how much longer than requested a lease or a cool-down may last. It returns 0,
// unless the store counts in whole seconds.
func (r *Run) coarse() time.Duration {
	if d := r.Guarantees.MinTTL; d >= time.Second {
		return d + time.Second
	}
	return 0
}

// keptByDead returns how long a killed process may keep a name that no hold of its own explains:
// by a place in the queue, or by a lock that its last call has got. The leases of most stores are
// shorter than the grace of the fault, and excused by it.
func (r *Run) keptByDead() time.Duration {
	if d := r.coarse(); d > 0 {
		return max(r.Guarantees.DeadWaiter, r.Load.MaxTTL+d)
	}
	return r.Guarantees.DeadWaiter
}

// delayOfDead returns how long the waiters of killed workers may delay a new waiter. When all
// workers have gone, every waiter that is still in the queue is dead. There are many such waiters
// if workers are killed faster than the store notices the death of waiters.
func (r *Run) delayOfDead(ctx context.Context, l *padlock.Locker, name string) time.Duration {
	st, err := l.Inspect(ctx, name)
	if err != nil { // the store cannot tell, or does not answer; Acquire finds that out
		return 0
	}
	return time.Duration(max(0, st.Waiters)) * cmp.Or(r.Guarantees.DeadWaiter, driver.MaxReservation)
}

// askUntilGranted calls the function ask until the store grants the lock. It gives up when the
// store has reported the lock as held for the time maxHeld. Stalls of this process do not count.
// After other errors, it tries again for at most answerPatience. A call without an answer may have
// the lock until its clean-up or the end of its lease, so after that maxHeld is at least as long.
func (r *Run) askUntilGranted(ctx context.Context, maxHeld time.Duration, ask func() (*padlock.Lock, error)) (*padlock.Lock, error) {
	begun, since := clockNow(), clockNow()
	for {
		lock, err := ask()
		switch told := errors.Is(err, padlock.ErrHeld) && !errors.Is(err, padlock.ErrUncertain); {
		case err == nil || ctx.Err() != nil || clockNow()-begun > int64(answerPatience):
			return lock, err
		case !told:
			since, maxHeld = clockNow(), max(maxHeld, r.Load.MaxTTL+time.Second)
		case clockNow()-since-r.monitor.stallTime(since) >= int64(maxHeld):
			return nil, err
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// answerPatience is how long the engine waits for an answer of the store after the faults are over.
// The machine may be busy then.
const answerPatience = 30 * time.Second

// nothingLeft looks for holds and waiters that belong to no worker and do not expire. If the
// process of a waiter was killed, the store may keep the waiter for longer than any lease. But the
// store must remove the waiter when somebody else takes the name. So nothingLeft takes and releases
// each name that has only waiters. Then the name must have no waiters.
func (r *Run) nothingLeft(ctx context.Context, l *padlock.Locker) {
	broken := func(name, what string) {
		r.monitor.Log(Event{Op: Broken, Worker: engine, At: clockNow(), Name: name, Err: "I7 " + what})
	}
	taken := false
	for begun := clockNow(); ; pause(ctx, 50*time.Millisecond) {
		left, err := r.listTaken(ctx, l)
		waited := time.Duration(clockNow() - begun)
		if stay := r.takeStaying(&left); len(left) == 0 && len(stay) > 0 && r.For >= longRun {
			if waited <= maxStay+stayLonger+r.coarse() {
				continue
			}
			left = stay
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported), err == nil && len(left) == 0:
			return
		case err != nil && waited > answerPatience:
			broken("", "List: "+err.Error())
			return
		case err == nil && waited > 2*(r.Load.MaxTTL+time.Second) && !taken:
			taken = true // the names that nobody holds, as by a waiter
			for _, s := range left {
				if len(s.Holds) == 0 && !r.lookAt(ctx, l, s.Name, clockNow()) {
					break
				}
			}
		case err == nil && waited > 2*(r.Load.MaxTTL+time.Second):
			for _, s := range left {
				broken(s.Name, fmt.Sprintf("%d holds and %d waiters are left", len(s.Holds), s.Waiters))
			}
			return
		}
	}
}

// maxStay is the longest time for which a question, or the number of the newest caller that ran, stays
// in the store. stayLonger is by how much clocks of servers that are set back make that longer.
const (
	maxStay    = time.Minute
	stayLonger = 20 * time.Second
)

// longRun is how long a run takes that waits for the end of all questions. Other runs only look
// whether each has an end in time.
const longRun = 30 * time.Second

// takeStaying removes the names that end by themselves in time, and returns them: those of questions,
// and of the number of the newest caller that ran. A long run waits for the end, so it need not know it:
// etcd does not show the last second of a lease.
func (r *Run) takeStaying(states *[]padlock.State) (stay []padlock.State) {
	*states = slices.DeleteFunc(*states, func(s padlock.State) bool {
		_, question := fast.SplitAsk(s.Name)
		base, newest := fast.SplitNewest(s.Name)
		ends := question || newest && strings.HasPrefix(s.Name, fast.NewestName(base, "last "))
		for _, h := range s.Holds {
			ends = ends && (r.For >= longRun || !h.Until.IsZero() && time.Until(h.Until) <= maxStay+stayLonger+r.coarse())
		}
		if ends = ends && s.Waiters <= 0; ends {
			stay = append(stay, s)
		}
		return ends
	})
	return stay
}

// listTaken lists the names that are not free.
func (r *Run) listTaken(ctx context.Context, l *padlock.Locker) (left []padlock.State, err error) {
	states, err := l.List(ctx, r.Load.Prefix)
	for _, s := range states {
		if len(s.Holds) > 0 || s.Waiters > 0 {
			left = append(left, s)
		}
	}
	return left, err
}
