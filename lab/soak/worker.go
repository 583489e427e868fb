package soak

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
)

// worker is one goroutine that takes and releases locks. A worker's process has several of them,
// all with the same id.
type worker struct {
	monitor monitorAPI
	locker  *padlock.Locker
	dice    dice
	id      int // number of the worker's process
	life    int
	holds   int64 // number of ids given out
	first   int64
}

// newWorker makes goroutine g of process id.
func newWorker(o *order, g int, monitor monitorAPI, l *padlock.Locker) *worker {
	w := &worker{monitor: monitor, locker: l, id: o.Worker, life: o.Life}
	w.first = int64(o.Worker)<<52 | int64(o.Life)<<40 | int64(g)<<32
	source := rand.NewPCG(o.Seed, uint64(w.first))
	load := o.Load
	own := ownName(load.Prefix, o.Worker, g, o.Life)
	g0 := l.Guarantees()
	w.dice = dice{rand.New(source), load.fitTo(&g0), own, o.Base}
	return w
}

// ownName returns the name that only one goroutine of one process of a worker uses.
func ownName(prefix string, worker, g, life int) string {
	letter := func(n int) string { return string(rune('a' + n)) }
	return prefix + "own:" + letter(worker) + ":" + letter(g) + ":" + letter(life%26)
}

func (w *worker) log(e Event) {
	e.Worker, e.Life = w.id, w.life
	if e.At == 0 {
		e.At = clockNow()
	}
	w.monitor.Log(e)
}

// held is a lock that a worker holds. The turn says for which task the worker took the lock.
type held struct {
	*padlock.Lock
	turn
	id   int64
	over atomic.Bool // Release was called, or the lock's key was offered to other workers
}

// Name returns the name under which the store keeps the lock. For a permit, that is the name of the
// permit, because the store keeps each permit as a separate lock.
func (h *held) Name() string { return storedName(h.Lock) }

func storedName(k *padlock.Lock) string {
	if k.Slot() >= 0 {
		return fast.SlotName(k.Name(), k.Slot())
	}
	return k.Name()
}

func (w *worker) take(ctx context.Context, t turn) *held {
	waiting := ctx
	if t.cancel > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, t.cancel)
		defer cancel()
	}
	if t.asks {
		w.question(waiting, t.name)
	}
	begun := w.logAsk(t.name, t.slots)
	acquire := w.locker.Acquire
	if t.try {
		acquire = w.locker.TryAcquire
	}
	lock, err := acquire(waiting, t.name, t.options()...)
	if err != nil {
		w.logRefusal(ctx, begun, t, err)
		return nil
	}
	return w.got(Event{Op: Acquired, Call: begun, Waited: !t.try}, lock, t)
}

// logAsk logs the beginning of an acquire, and returns its time. The worker may be killed before
// the end.
func (w *worker) logAsk(name string, slots int) (begun int64) {
	begun = clockNow()
	w.log(Event{Op: Asked, Call: begun, At: begun, Name: name, Slots: slots})
	return begun
}

// options returns the options of the turn's acquire.
func (t *turn) options() []padlock.Option {
	opts := []padlock.Option{padlock.TTL(t.ttl), padlock.Wait(t.wait)}
	if t.shared {
		opts = append(opts, padlock.Shared())
	}
	if t.fixed {
		opts = append(opts, padlock.NoRenewal())
	}
	if t.detached {
		opts = append(opts, padlock.Detached())
	}
	if t.atLeast > 0 {
		opts = append(opts, padlock.HoldAtLeast(t.atLeast))
	}
	if t.limit > 0 {
		opts = append(opts, padlock.HoldAtMost(t.limit))
	}
	if t.slots > 0 {
		opts = append(opts, padlock.Slots(t.slots))
	}
	return opts
}

// logRefusal logs the error of an acquire. If the name is not held, the store may be down, so
// logRefusal pauses before the worker sends its next request.
func (w *worker) logRefusal(ctx context.Context, begun int64, t turn, err error) {
	kind := class(err)
	w.log(Event{Op: Refused, Call: begun, Name: t.name, Shared: t.shared, TTL: int64(t.ttl), Waited: !t.try && t.cancel == 0, Slots: t.slots, Keep: int64(t.atLeast), Err: kind})
	if kind != "held" {
		pause(ctx, 20*time.Millisecond)
	}
}

func (w *worker) got(e Event, lock *padlock.Lock, t turn) *held {
	w.holds++
	h := &held{Lock: lock, turn: t, id: w.first | w.holds}
	e.At = clockNow()
	e.Name, e.Slots, e.Hold, e.Shared, e.Fence, e.TTL, e.Fixed = h.Name(), t.slots, h.id, lock.Shared(), lock.Fence(), int64(t.ttl), t.fixed || t.limit > 0
	e.Until, e.Keep = claim(lock), int64(t.atLeast)
	w.log(e)
	context.AfterFunc(lock.Context(), func() {
		if !h.over.Load() {
			w.log(Event{Op: Lost, Name: storedName(lock), Hold: h.id, Err: class(context.Cause(lock.Context()))})
		}
	})
	return h
}

// readShared reads the data under a shared lock.
func (w *worker) readShared(h *held) {
	w.monitor.Read(h.Name(), 0)
	pause(h.Context(), h.hold)
	w.verify(h)
}

// The method change reads the registers that the lock protects, works for a while, adds one, and
// writes the registers back.
func (w *worker) change(h *held) {
	fence := h.Fence()
	value := w.monitor.Read(h.Name(), fence)
	w.pauseForHold(h)
	w.verify(h)
	until := claim(h.Lock)
	if until == 0 {
		return
	}
	if h.pause && h.ttl > 0 {
		time.Sleep(h.ttl + 200*time.Millisecond) // the worker pauses past the end of its lease
	}
	w.monitor.Write(Write{Name: h.Name(), Fence: fence, Value: value, Until: until, Paused: h.pause, Worker: w.id, Hold: h.id})
}

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// op calls the store and logs the result. The event also says until when the holder may now rely on
// the lock.
func (w *worker) op(h *held, op Op, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	e := Event{Op: op, Name: h.Name(), Hold: h.id, Call: clockNow(), TTL: int64(h.ttl)}
	err := f(ctx)
	e.At, e.Err, e.Shared, e.Fence = clockNow(), class(err), h.Shared(), h.Fence()
	e.Until = claim(h.Lock)
	w.log(e)
	return err == nil
}

func (w *worker) verify(h *held) {
	switch {
	case !h.verify:
	case h.extend && !h.fixed:
		w.op(h, Verified, func(ctx context.Context) error { return h.Extend(ctx, 0) })
	default:
		w.op(h, Verified, h.Check)
	}
}

func (w *worker) promote(_ context.Context, h *held) bool { return w.op(h, Promoted, h.Promote) }

func (w *worker) demote(_ context.Context, h *held) bool {
	w.logBegin(h, Demoted)
	return w.op(h, Demoted, h.Demote)
}

// logBegin logs the beginning of a call. Other workers may see the effects of the call before its
// end is logged.
func (w *worker) logBegin(h *held, op Op) {
	w.log(Event{Op: Begun, Name: h.Name(), Hold: h.id, Keep: int64(h.cool), Err: string(op)})
}

// release releases the lock. Once the call begins, the worker no longer claims that it may work.
func (w *worker) release(h *held) {
	h.over.Store(true)
	w.logBegin(h, Released)
	var opts []padlock.ReleaseOption
	if h.cool > 0 {
		opts = append(opts, padlock.CoolDown(h.cool))
	}
	e := Event{Op: Released, Name: h.Name(), Hold: h.id, Call: clockNow(), Until: claim(h.Lock), Keep: int64(h.cool)}
	err := h.Release(opts...)
	e.At, e.Err = clockNow(), class(err)
	w.log(e)
	h.own = h.own && err == nil // the next try needs a name that was released for certain
}

// question asks the holder of a name to leave. The reason is a number, by which the holder's event
// names the question. The worker may be killed meanwhile.
func (w *worker) question(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	w.holds++
	e := Event{Op: Questioning, Name: name, Other: w.first | w.holds, Call: clockNow()}
	w.log(e)
	q, err := w.locker.Ask(ctx, name, "q"+strconv.FormatInt(e.Other, 10))
	e.Op, e.At, e.Other, e.Fence, e.Err = Questioned, clockNow(), questionNumber(q.Reason), q.Fence, class(err)
	w.log(e)
}

// questionNumber returns the number in a reason, or 0. A server of the HTTP API adds the client.
func questionNumber(reason string) int64 {
	reason, _, _ = strings.Cut(strings.TrimPrefix(reason, "q"), " ")
	n, _ := strconv.ParseInt(reason, 10, 64)
	return n
}

// pauseForHold is the work of a holder. A holder that looks for questions notes the first one.
func (w *worker) pauseForHold(h *held) {
	if h.manner == neverLooks {
		pause(h.Context(), h.hold)
		return
	}
	w.log(Event{Op: Looks, Name: h.Name(), Hold: h.id})
	begun := clockNow()
	working, stop := context.WithTimeout(h.Context(), h.hold)
	defer stop()
	select {
	case <-working.Done():
		return
	case <-padlock.Asked(h.Context()):
	}
	q, _ := padlock.QuestionFrom(h.Context())
	w.log(Event{Op: Told, Name: h.Name(), Hold: h.id, Other: questionNumber(q.Reason), Fence: q.Fence})
	if h.manner == stays {
		pause(h.Context(), h.hold-time.Duration(clockNow()-begun))
	}
}
