package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// plan is what a caller wants.
type plan struct {
	features feature
	names    []string
	opts     []padlock.Option
	slots    int
	atLeast  time.Duration
	coolDown time.Duration
	release  []padlock.ReleaseOption
	maxHold  time.Duration
	wait     time.Duration // the time of Wait, or the time until the context ends; 0 if there is no limit
	byCtx    bool
	once     bool
	edge     bool // the caller works until just before its lease ends
}

// draw returns a random plan.
func (x *pairModel) draw(p *process) (d plan) {
	d.names = []string{pairNames[x.n(len(pairNames))]}
	switch x.n(8) {
	case 0, 1:
		d.features, d.slots = useSlots, 1+x.n(3)
		d.opts = append(d.opts, padlock.Slots(d.slots))
	case 2, 3:
		d.features, d.names = useAll, pairNames[x.n(len(pairNames)-1):]
	case 4:
		d.features = useElection
	default:
		d.features = useAcquire
	}
	if x.n(3) == 0 && d.features&(useSlots|useElection) == 0 {
		d.features |= useShared
		d.opts = append(d.opts, padlock.Shared())
	}
	if x.n(8) == 0 && d.features&useShared == 0 && x.kind.server != inProcess {
		d.features |= useDetached
		d.opts = append(d.opts, padlock.Detached())
	}
	if x.n(8) == 0 {
		d.features, d.atLeast = d.features|useAtLeast, 100*time.Millisecond+x.ms(200)
		d.opts = append(d.opts, padlock.HoldAtLeast(d.atLeast))
	}
	if x.n(8) == 0 {
		d.features, d.coolDown = d.features|useCoolDown, 100*time.Millisecond+x.ms(200)
		if option := padlock.CoolDown(d.coolDown); x.n(2) == 0 && d.features&useElection == 0 {
			d.release = append(d.release, option)
		} else {
			d.opts = append(d.opts, option)
		}
	}
	if x.n(8) == 0 {
		d.features, d.maxHold = d.features|useMaxHold, time.Millisecond+x.ms(300)
		d.opts = append(d.opts, padlock.HoldAtMost(d.maxHold))
	}
	if d.edge = x.n(24) == 0 && d.features&(useAll|useElection) == 0; d.edge {
		d.opts = append(d.opts, padlock.TTL(8*time.Second), padlock.NoRenewal())
	} else if x.n(2) == 0 {
		d.opts = append(d.opts, padlock.TTL([]time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}[x.n(3)]))
	}
	d.limit(x)
	return d
}

// limit draws how long the caller waits.
func (d *plan) limit(x *pairModel) {
	if d.features&useElection != 0 {
		return
	}
	switch x.n(6) {
	case 0:
		d.wait, d.byCtx = time.Millisecond+x.ms(30), true
	case 1:
		d.wait = time.Millisecond + x.ms(30)
	case 2:
		d.wait, d.byCtx = time.Second+x.ms(2000), x.n(2) == 0
	case 3:
		d.once = x.n(2) == 0
	}
	if d.once {
		d.opts = append(d.opts, padlock.Wait(0))
	} else if d.wait > 0 && !d.byCtx {
		d.opts = append(d.opts, padlock.Wait(d.wait))
	}
}

// one makes one call, and works with its lock.
func (x *pairModel) one() {
	p := x.process()
	d := x.draw(p)
	u, ctx := x.begin(p, d.features, d.names...)
	defer x.end(u)
	began, short := time.Now(), d.wait > 0 && d.wait < 50*time.Millisecond
	if d.wait > 0 && d.byCtx {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.wait)
		defer cancel()
	}
	var err error
	worked := false
	work := func(locks ...*padlock.Lock) []*entry {
		worked = true
		x.checkTold(u, nil)
		return x.work(u, d, locks)
	}
	switch {
	case d.features&useElection != 0:
		err = x.lead(ctx, u, d)
	case d.features&useAll != 0:
		err = x.takeAll(ctx, u, d, work)
	default:
		err = x.take(ctx, u, d, work)
	}
	if worked || err == nil {
		return
	}
	x.checkTold(u, err)
	x.checkRefusal(u, d, time.Since(began), err)
	if short {
		x.meetAll(shortWaits, func(other *use) bool { return other != u && slices.Contains(other.names, u.names[0]) })
	}
}

// take takes one lock with Acquire or Do.
func (x *pairModel) take(ctx context.Context, u *use, d plan, work func(...*padlock.Lock) []*entry) error {
	if x.n(4) == 0 {
		return x.do(ctx, u, d, work)
	}
	k, err := u.p.Acquire(ctx, d.names[0], d.opts...)
	if err != nil {
		return err
	}
	for _, e := range work(k) {
		x.release(e, d)
	}
	return nil
}

// do takes one lock with Do. The function does not get the Lock, so the model sees only whether its
// context is right.
func (x *pairModel) do(ctx context.Context, u *use, d plan, work func(...*padlock.Lock) []*entry) error {
	ran := false
	err := u.p.Do(ctx, d.names[0], func(inside context.Context) error {
		ran = true
		work()
		if _, ok := padlock.FenceFrom(inside); !ok {
			x.report("call %d (%v): the context has no fence", u.id, u.features)
		}
		sleep(inside, x.ms(3))
		return nil
	}, d.opts...)
	if ran {
		return nil
	}
	return err
}

// takeAll takes several locks with AcquireAll or DoAll.
func (x *pairModel) takeAll(ctx context.Context, u *use, d plan, work func(...*padlock.Lock) []*entry) error {
	if x.n(4) == 0 {
		ran := false
		err := u.p.DoAll(ctx, d.names, func(inside context.Context) error {
			ran = true
			work()
			sleep(inside, x.ms(3))
			return nil
		}, d.opts...)
		if ran {
			return nil
		}
		return err
	}
	all, err := u.p.AcquireAll(ctx, d.names, d.opts...)
	if err != nil {
		return err
	}
	var locks []*padlock.Lock
	for _, name := range all.Names() {
		locks = append(locks, all.Lock(name))
	}
	entries := work(locks...)
	began := x.clock.Now()
	err = all.Release(d.release...)
	for _, e := range entries {
		x.checkRelease(e, err)
		if err == nil {
			x.coolsDown(e, d, began)
		}
	}
	return nil
}

// lead makes the calls of package election: it waits for the lock without a limit, works under the
// lock's context, looks whether it still leads, and campaigns again.
func (x *pairModel) lead(ctx context.Context, u *use, d plan) error {
	k, err := u.p.Acquire(ctx, d.names[0], append(d.opts, padlock.Wait(1<<63-1))...)
	if err != nil {
		return err
	}
	x.checkTold(u, nil)
	inside, resign := context.WithCancel(k.Context())
	defer resign()
	e := x.enter(k, u)
	time.AfterFunc(x.ms(20), resign)
	k.Check(inside)
	sleep(inside, x.ms(20))
	x.leave(e)
	x.release(e, d)
	return nil
}

// work does something under locks. It returns the entries of those that must still be released.
func (x *pairModel) work(u *use, d plan, locks []*padlock.Lock) (entries []*entry) {
	returned := x.clock.Now()
	for _, k := range locks {
		e := x.enter(k, u)
		entries = append(entries, e)
		x.checkFree(e)
		if d.atLeast > 0 && u.features&useAll == 0 && !k.Shared() && k.Remaining() > 0 && x.calmSince(u) {
			x.staysTaken(k, returned.Add(d.atLeast-50*time.Millisecond))
		}
	}
	for _, e := range entries {
		if d.edge {
			x.workToTheEnd(e)
		} else {
			x.deed(e, d)
		}
	}
	for _, e := range entries {
		if e.exported {
			continue
		}
		x.leave(e)
		if d.maxHold > 0 && x.clock.Now() >= returned.Add(d.maxHold) && e.Remaining() > 0 {
			x.report("%s lasts longer than its HoldAtMost of %v", e.describe(), d.maxHold)
		}
	}
	return entries
}

// workToTheEnd works until just before the deadline of the lock. The store's lease must end later,
// by the time for the release. It is so long that its margin for clocks is longer than that time.
func (x *pairModel) workToTheEnd(e *entry) {
	for _, early := range []time.Duration{50 * time.Millisecond, 1} {
		sleep(e.Context(), e.Remaining()-early)
		x.checkBacked(e.Lock, e.u, fmt.Sprintf("%v before its deadline", early))
	}
}

// deed is what a holder does with one lock.
func (x *pairModel) deed(e *entry, d plan) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), useKey{}, e.u), 100*time.Millisecond+x.ms(1000))
	defer cancel()
	switch x.n(10) {
	case 0, 1:
		x.adds(e.u, useConvert)
		x.convert(ctx, e)
	case 2:
		e.Extend(ctx, 0)
	case 3:
		e.Check(ctx)
	case 4, 5:
		if d.features&useAll == 0 {
			x.export(ctx, e)
		}
	case 6:
		sleep(e.Context(), x.ms(700))
	default:
		sleep(e.Context(), x.ms(3))
	}
}

// convert demotes a writer or promotes a reader, and perhaps changes it back.
func (x *pairModel) convert(ctx context.Context, e *entry) {
	for range 1 + x.n(2) {
		sleep(ctx, x.ms(10))
		if !e.Shared() {
			e.Demote(ctx)
			x.checkBacked(e.Lock, e.u, "after Demote")
			continue
		}
		x.leave(e)
		err := e.Promote(ctx)
		again := x.enter(e.Lock, e.u)
		again.robbed = again.robbed || e.robbed
		x.replace(again, e)
		if err == nil && e.Shared() && e.Remaining() > 0 {
			x.report("%s is shared after Promote", e.describe())
		}
	}
}

// replace makes e take the place of its copy in the list of holders.
func (x *pairModel) replace(copied, e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.robbed = copied.robbed
	for i, other := range x.holders[storedName(e.Lock)] {
		if other == copied {
			x.holders[storedName(e.Lock)][i] = e
		}
	}
}

// export hands a lock over to another process. The old holder may not use it any more.
func (x *pairModel) export(ctx context.Context, e *entry) {
	x.adds(e.u, useExport)
	x.forgetsAtLeast(e)
	x.leave(e)
	e.exported = true
	key, err := e.Export(ctx)
	if err != nil {
		return
	}
	sleep(ctx, x.ms(20))
	p := x.process()
	u, inside := x.begin(p, useExport, e.Name())
	defer x.end(u)
	k, err := p.Adopt(inside, key)
	x.checkTold(u, err)
	if err != nil {
		return
	}
	taken := x.enter(k, u)
	sleep(k.Context(), x.ms(20))
	x.leave(taken)
	if err := e.Release(); err == nil && !e.u.p.closed {
		x.report("%s was adopted, and its release says nothing", e.describe())
	}
	x.release(taken, plan{})
}

// release releases a lock, perhaps by two callers at the same time.
func (x *pairModel) release(e *entry, d plan) {
	began, at := time.Now(), x.clock.Now()
	var both sync.WaitGroup
	if x.n(8) == 0 {
		both.Go(func() { e.Release(d.release...) })
	}
	err := e.Release(d.release...)
	both.Wait()
	x.checkRelease(e, err)
	if took := time.Since(began); took > releaseMost {
		x.report("%s: the release took %v", e.describe(), took)
	}
	if err == nil {
		x.coolsDown(e, d, at)
	}
}

// coolsDown notes that the name of e stays taken. The release began at the given instant.
func (x *pairModel) coolsDown(e *entry, d plan, began driver.Instant) {
	if d.coolDown > 0 && !e.Shared() && !e.u.p.closed {
		x.staysTaken(e.Lock, began.Add(d.coolDown))
	}
}

const (
	releaseMost = 17 * time.Second // Release promises "about 15 seconds"
	requestMost = 3 * driver.MaxSilence
	waitMost    = 90 * time.Second
)

// checkRefusal checks why and when a call without a lock has returned.
func (x *pairModel) checkRefusal(u *use, d plan, took time.Duration, err error) {
	most := waitMost
	switch {
	case d.wait > 0 && d.byCtx:
		most = d.wait + time.Second
	case d.wait > 0:
		most = d.wait + time.Duration(max(len(d.names), d.slots))*requestMost + 2*time.Second // one after the other
	}
	if took > most {
		x.report("call %d (%v) has returned after %v, the limit was %v: %v", u.id, u.features, took, d.wait, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if errors.Is(err, context.Canceled) && !u.canceled || errors.Is(err, context.DeadlineExceeded) && !d.byCtx {
		x.report("call %d (%v): the context has not ended: %v", u.id, u.features, err)
	}
	known := u.canceled || errors.Is(err, padlock.ErrHeld) && (d.wait > 0 || d.once) || errors.Is(err, padlock.ErrClosed) && u.p.closed ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, padlock.ErrMaxHold)
	if !known && x.strikes == u.strikes {
		x.report("call %d (%v): nothing has happened, and the error is: %v%s", u.id, u.features, err, x.past(u.names[0]))
	}
}
