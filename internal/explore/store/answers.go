package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/decide"
)

func (w *world) request(f flight, shared bool) *driver.Request {
	return &driver.Request{Token: driver.TokenOf(names[f.tok]), Shared: shared, TTL: w.sp.TTL, Holder: driver.Holder{PID: int(f.tok) + 1}}
}

// say notes the answer for a person.
func (w *world) say(format string, args ...any) {
	if w.tell {
		w.answer = fmt.Sprintf(format, args...)
	}
}

// arrive lets the store decide about a request, and checks the answer.
func (w *world) arrive(f flight) error {
	w.s.Trim(w.present())
	w.l.tidy()
	err := w.decide(f)
	if w.sp.Queue {
		err = errors.Join(err, w.handOver())
	}
	return err
}

func (w *world) decide(f flight) error {
	switch f.verb {
	case Acquire, AcquireAbove:
		return w.acquire(f, false)
	case Share, ShareAbove:
		return w.acquire(f, true)
	case Replace:
		return w.replace(f)
	case Extend:
		return w.extend(f)
	case Promote, Demote:
		return w.convert(f)
	case Release:
		return w.release(f, 0)
	case ReleaseKeep:
		return w.release(f, w.sp.Keep)
	case Break:
		return w.breakAll(f)
	case Raise:
		return w.raise(f)
	case Join, JoinShared:
		w.queue = append(w.queue, place{f.tok, f.verb == JoinShared})
		w.say("waits")
	}
	return nil
}

// turn reports whether a token may take the name before those who wait.
func (w *world) turn(i int8) bool { return len(w.queue) == 0 || w.queue[0].tok == i }

func (w *world) acquire(f flight, shared bool) error {
	i := int(f.tok)
	a := &w.l.tokens[i]
	r := w.request(f, shared)
	r.FenceAbove = f.arg
	h, err := w.s.AcquireInTurn(r, w.turn(f.tok), w.present())
	w.got = answerOf(h, err)
	switch {
	case w.l.live(i):
		return w.claimed(a, h, err)
	case a.spent > w.l.now:
		return w.refused(i, "the token was released", err, driver.ErrLost)
	case w.l.excluded(i, shared) || !w.turn(f.tok):
		return w.refused(i, "the name is not free", err, driver.ErrHeld)
	}
	if err != nil {
		return w.unmade(err, max(w.l.top, f.arg), "the name is free, and refused")
	}
	w.say("granted")
	w.queue = slices.DeleteFunc(w.queue, func(p place) bool { return p.tok == f.tok })
	joins := shared && w.l.others(i, false)
	bad := w.l.given(i, hold, shared, joins, f.arg, h.Fence)
	a.end = w.l.now.Add(w.sp.TTL)
	return errors.Join(bad, w.exact(h, a))
}

// claimed checks a repeat, which changes the end only, or the claim of a reservation.
func (w *world) claimed(a *account, h *decide.Hold, err error) error {
	if err != nil {
		return fmt.Errorf("a repeat with the token of a live hold or reservation: %w", err)
	}
	w.say("repeated")
	if a.has == reservation {
		a.has, a.end = hold, 0
		w.say("claimed")
	}
	a.end = max(a.end, w.l.now.Add(w.sp.TTL))
	return w.exact(h, a)
}

// unmade checks the error of a request that has to be granted: it is right only if the name has no
// fence left above the given one.
func (w *world) unmade(err error, above uint64, what string) error {
	if err == driver.ErrFencesUsedUp && max(above+1, w.l.wall) >= driver.MaxFence {
		w.say("no fence is left")
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// refused checks that a request was refused for the right reason.
func (w *world) refused(i int, why string, got, want error) error {
	w.say("refused: %v", want)
	switch {
	case got == nil && want == driver.ErrHeld:
		return safety.ErrTwoHold("%s, and a request is granted", why)
	case got == nil:
		return safety.ErrBroken("%s, and a request is granted", why)
	case !errors.Is(got, want):
		return fmt.Errorf("%s: %v, want %w", why, got, want)
	case want == driver.ErrHeld:
		return w.inTheWay(i, got.(*driver.HeldError))
	}
	return nil
}

// inTheWay checks that a refusal names what is in the way, and until when. Waiters alone have no hold.
func (w *world) inTheWay(i int, err *driver.HeldError) error {
	var last time.Time
	for _, h := range err.Holds {
		if h.Until.After(last) {
			last = h.Until
		}
	}
	return errors.Join(w.reported(err.Holds, i), differs("the last end in a refusal", err.Until, last))
}

// exact checks a hold that was given against the ledger: its lease must not be too short or too
// long, and a grant removes the mark of the last one.
func (w *world) exact(h *decide.Hold, a *account) error {
	switch {
	case h.Until < a.end:
		return safety.ErrTooEarly("a lease ends %v before its time", a.end.Sub(h.Until))
	case h.Change != "":
		return errors.New("a grant keeps the mark of the last one")
	case h.Reserved && a.has == hold, h.Holder.PID == 0 || names[h.Holder.PID-1] != h.Token:
		return fmt.Errorf("a grant of another kind, or to another holder: %+v", *h)
	}
	return errors.Join(differs("end of the lease", h.Until, a.end), differs("shared", h.Shared, a.shared), differs("fence", h.Fence, a.fence))
}

func (w *world) replace(f flight) error {
	i, j := int(f.tok), int(f.other)
	a, old := &w.l.tokens[i], w.l.tokens[j]
	r := w.request(f, false)
	r.Replaces = driver.TokenOf(names[j])
	h, err := w.s.AcquireInTurn(r, false, w.present())
	w.got = answerOf(h, err)
	switch {
	case w.l.live(i):
		return w.claimed(a, h, err)
	case a.spent > w.l.now, !w.l.live(j), old.has != hold:
		return w.refused(i, "there is no hold to be replaced", err, driver.ErrLost)
	case err != nil:
		return w.unmade(err, w.l.top, "a live hold is not replaced")
	}
	w.say("granted")
	w.l.tokens[j] = account{closed: old.closed}
	bad := w.l.given(i, hold, old.shared, false, 0, h.Fence)
	if int(w.l.wish) == j {
		w.l.wish = f.tok
	}
	a.end = max(old.end, w.l.now.Add(w.sp.TTL))
	return errors.Join(bad, w.exact(h, a))
}

// without checks the answer to a request for which the token has no hold.
func (w *world) without(i int, got error) (bool, error) {
	want, lenient := w.l.lacks(i)
	if want == nil {
		return false, nil
	}
	if lenient && got == driver.ErrLost {
		want = driver.ErrLost
	}
	return true, w.refused(i, "the token has no hold", got, want)
}

func (w *world) extend(f flight) error {
	h, err := w.s.Extend(names[f.tok], w.sp.TTL, w.present())
	w.got = answerOf(h, err)
	if none, bad := w.without(int(f.tok), err); none {
		return bad
	}
	if err != nil {
		return fmt.Errorf("a live hold is not extended: %w", err)
	}
	w.say("extended")
	a := &w.l.tokens[f.tok]
	a.end = max(a.end, w.l.now.Add(w.sp.TTL))
	return w.exact(h, a)
}

func (w *world) convert(f flight) error {
	i := int(f.tok)
	a := &w.l.tokens[i]
	h, _, err := w.s.Convert(w.request(f, f.verb == Demote), w.present())
	w.got = answerOf(h, err)
	if none, bad := w.without(i, err); none {
		return bad
	}
	var bad error
	switch promotes := a.shared && f.verb == Promote; {
	case promotes && w.l.wish >= 0 && w.l.wish != f.tok:
		return w.refused(i, "another reader waits for its promotion", err, driver.ErrPromotionConflict)
	case promotes && w.l.others(i, false):
		w.l.wish, w.l.wishEnd = f.tok, w.l.now.Add(driver.MaxIntent)
		return w.refused(i, "there are other readers", err, driver.ErrHeld)
	case err != nil && promotes:
		return w.unmade(err, w.l.top, "the only reader is not promoted")
	case err != nil:
		return fmt.Errorf("a live hold is not demoted: %w", err)
	case promotes:
		spent, end := a.spent, a.end
		bad = w.l.given(i, hold, false, false, 0, h.Fence)
		a.spent, a.end = spent, end
	}
	w.say("converted")
	if a.shared = f.verb == Demote; w.l.wish == f.tok {
		w.l.wish, w.l.wishEnd = -1, 0
	}
	a.end = max(a.end, w.l.now.Add(w.sp.TTL))
	return errors.Join(bad, w.exact(h, a))
}

func (w *world) release(f flight, keep time.Duration) error {
	waits := slices.IndexFunc(w.queue, func(p place) bool { return p.tok == f.tok })
	if waits >= 0 {
		w.queue = slices.Delete(w.queue, waits, waits+1)
	}
	got := w.s.Release(names[f.tok], keep, w.present())
	w.got = Answer{Outcome: got}
	want, lenient := w.l.released(int(f.tok), decide.Time(keep.Microseconds()))
	w.say("%v", got)
	if lenient && got == driver.OutcomeTaken {
		return nil
	}
	return differs("outcome of Release", got, want)
}

func (w *world) breakAll(f flight) error {
	fence, err := w.s.Break(f.arg, w.present())
	w.got = Answer{Err: err, Fence: fence}
	switch {
	case f.arg == 0 || f.arg != w.l.top:
		return w.refused(-1, "the fence is not the one that was seen", err, driver.ErrLost)
	case err != nil:
		return w.unmade(err, w.l.top, "a name is not broken")
	}
	w.say("broken")
	return w.l.broken(fence)
}

func (w *world) raise(f flight) error {
	_, err := w.s.RaiseFence(names[f.tok], f.arg, w.present())
	w.got = Answer{Err: err}
	if none, bad := w.without(int(f.tok), err); none {
		return bad
	}
	if err != nil {
		return fmt.Errorf("the fence of a live hold is not raised: %w", err)
	}
	w.say("raised")
	for j := range w.l.tokens {
		if a := &w.l.tokens[j]; a.has != nothing && f.arg > w.l.top && j != int(f.tok) {
			a.risen = true
		}
	}
	a := &w.l.tokens[f.tok]
	a.fence = max(a.fence, f.arg)
	w.l.top = max(w.l.top, f.arg)
	return nil
}

// handOver reserves the free name for those whose turn it is.
func (w *world) handOver() error {
	for len(w.queue) > 0 && !w.s.Excludes(names[w.queue[0].tok], w.queue[0].shared, w.present()) {
		p := w.queue[0]
		i := int(p.tok)
		if w.l.excluded(i, p.shared) {
			return safety.ErrTwoHold("the name is not free, and handed over")
		}
		r := w.request(flight{tok: p.tok}, p.shared)
		h, err := w.s.Reserve(r, w.present())
		if err != nil {
			return w.unmade(err, w.l.top, "a free name is not handed over")
		}
		w.queue = w.queue[1:]
		joins := p.shared && w.l.others(i, false)
		bad := w.l.given(i, reservation, p.shared, joins, 0, h.Fence)
		a := &w.l.tokens[i]
		a.end = w.l.now.Add(driver.MaxReservation)
		if bad = errors.Join(bad, w.exact(h, a)); bad != nil {
			return bad
		}
	}
	return nil
}

// compare checks everything that a store may ask a State against the ledger.
func (w *world) compare() error {
	now := w.present()
	busy := w.l.cool > w.l.now
	for i := range w.sp.Tokens {
		a := &w.l.tokens[i]
		busy = busy || w.l.live(i)
		h := w.s.Live(names[i], now)
		if (h != nil) != w.l.live(i) {
			return safety.ErrBroken("%s has a hold or a reservation by its grants: %v, and in the store: %v", names[w.is[i]], w.l.live(i), h != nil)
		}
		if h != nil && (h.Until != a.end || h.Fence != a.fence || h.Shared != a.shared || h.Reserved != (a.has == reservation)) {
			return fmt.Errorf("the hold of %s has changed: %+v, want %+v", names[w.is[i]], *h, *a)
		}
		_, err := w.s.Extend(names[i], 0, now)
		if want, lenient := w.l.lacks(i); err != want && !(lenient && err == driver.ErrLost) {
			return fmt.Errorf("%s looks at its hold: %v, want %v", names[w.is[i]], err, want)
		}
		for _, shared := range []bool{true, false} {
			if got, want := w.s.Excludes(names[i], shared, now), w.l.excluded(i, shared); got != want {
				return safety.ErrBroken("%s (shared %v) has to wait: %v, want %v", names[w.is[i]], shared, got, want)
			}
		}
	}
	for i := range w.s.Holds {
		if w.s.Holds[i].Change == "" {
			return errors.New("a look removes the mark of the last grant")
		}
	}
	return errors.Join(differs("the name is idle", w.s.Idle(now), !busy), differs("the next end", w.s.NextEnd(now), w.l.firstEnd()), w.report(now))
}

// report checks what people see.
func (w *world) report(now decide.Now) error {
	wall := time.Unix(1, 0)
	st := w.s.Report("", now, wall)
	err := errors.Join(w.reported(st.Holds, -1), differs("fence in a report", st.Fence, w.l.top))
	for _, h := range st.Holds {
		end := w.l.cool
		if !h.Cooling {
			end = w.l.tokens[h.PID-1].end
		}
		err = errors.Join(err, differs("an end in a report", h.Until.Sub(wall), time.Duration(end-w.l.now)*time.Microsecond))
	}
	return err
}

// reported checks that a list has the live holds of all tokens but one, and the cool-down.
func (w *world) reported(holds []driver.Hold, except int) error {
	want := 0
	if w.l.cool > w.l.now {
		want++
	}
	for i := range w.l.tokens {
		if i != except && w.l.live(i) {
			want++
		}
	}
	for _, h := range holds {
		if i := h.PID - 1; !h.Cooling && (i < 0 || i == except || !w.l.live(i) || h.Shared != w.l.tokens[i].shared) {
			return fmt.Errorf("a hold is reported that nobody has: %+v", h)
		}
	}
	return differs("holds that are reported", len(holds), want)
}

// rest checks that nothing is left when nothing has happened for long.
func (w *world) rest() error {
	var c world
	w.copyTo(&c)
	c.l.now = 2 * farOff
	now := c.present()
	c.s.Trim(now)
	if !c.s.Idle(now) || c.s.NextEnd(now) != 0 || len(c.s.Spent) > 0 || c.s.Intent != (decide.Intent{}) ||
		slices.ContainsFunc(c.s.Holds, func(h decide.Hold) bool { return h.Reserved }) {
		return fmt.Errorf("after two days without a request there is left: %+v", c.s)
	}
	return nil
}
