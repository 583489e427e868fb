package drivertest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// Wait implements driver.Waiter.
func (s *ref) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.validate(&r); err != nil {
		return driver.Grant{}, err
	}
	if err := s.travel(ctx); err != nil {
		if s.is(joinsAfterGivingUp) {
			s.join(&r, reserve)
		}
		return driver.Grant{}, err
	}
	s.waits.Add(1)
	e, p, err := s.join(&r, reserve)
	if err != nil {
		s.waits.Done()
		return driver.Grant{}, err
	}
	g, err := s.stand(ctx, e, p, r, reserve)
	if s.w.stall != nil {
		if d := s.w.stall(); d > 0 { // two timers due at once in a bubble can crash the race detector, golang/go #78156
			<-time.After(d)
		}
	}
	return g, err
}

func (s *ref) join(r *driver.Request, reserve bool) (*entry, *waiting, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	e, p := s.w.entry(r.Name), &waiting{token: r.Token.Text(), shared: r.Shared}
	switch n := len(e.queue); {
	case s.is(fullIsHeld) && reserve && n >= 64:
		return nil, nil, &driver.HeldError{Waiters: n}
	case s.w.most > 0 && reserve && n >= s.w.most:
		return nil, nil, fmt.Errorf("%d callers wait: %w", n, driver.ErrQueueFull)
	case s.is(lastComeFirst) && reserve:
		e.queue = slices.Insert(e.queue, 0, p)
	case reserve || s.is(everyWaitTakesAPlace):
		e.queue = append(e.queue, p)
	}
	return e, p, nil
}

// stand waits in the queue, or outside of it.
func (s *ref) stand(ctx context.Context, e *entry, p *waiting, r driver.Request, reserve bool) (driver.Grant, error) {
	w := s.w
	defer s.waits.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	missed := s.is(wakeUpMissed)
	if h := w.live(e, p.token); h != nil && s.is(waitLengthens) {
		h.until = later(h.until, w.now().Add(r.TTL))
	}
	if s.is(listensLate) && !reserve || s.is(listensLateInLine) && reserve {
		missed = !w.turn(e, p, &r, reserve)
		w.mu.Unlock()
		<-time.After(time.Microsecond)
		w.mu.Lock()
	}
	for {
		if !missed && w.turn(e, p, &r, reserve) || s.is(waitSpins) {
			return s.handOver(e, &r, reserve), nil
		}
		if err := s.pause(ctx, e); err != nil {
			return driver.Grant{}, s.leaveQueue(e, p, &r, err)
		}
		missed = false
	}
}

// turn reports whether a try of this waiter may succeed. The waiter is in the queue or outside of
// it.
func (w *world) turn(e *entry, p *waiting, r *driver.Request, reserve bool) bool {
	if reserve && (len(e.queue) == 0 || e.queue[0] != p) {
		return false
	}
	if !reserve && len(e.queue) > 0 && e.queue[0] != p && w.live(e, r.Token.Text()) == nil {
		return false
	}
	return w.free(e, r)
}

// handOver takes the waiter out of the queue.
func (s *ref) handOver(e *entry, r *driver.Request, reserve bool) driver.Grant {
	if !s.is(wokenKeepsItsPlace) && !(s.is(everyWaitTakesAPlace) && !reserve) {
		e.leave(r.Token.Text())
	}
	defer e.signal()
	if s.is(waitSpins) || !reserve && !s.is(reservesUnasked) || s.is(wokenKeepsItsPlace) {
		return driver.Grant{}
	}
	if s.w.g.InProcess && !s.is(inProcessReserves) {
		return s.grant(s.add(e, r, r.TTL))
	}
	waited := *r
	if s.is(waitersLabelCut) && len(r.Holder.Label) == driver.MaxLabel {
		waited.Holder.Label = r.Holder.Label[:driver.MaxLabel-1]
	}
	if s.is(waiterForgetsAbove) {
		waited.FenceAbove = 0
	}
	h := s.add(e, &waited, driver.MaxReservation)
	h.reserved, h.until = true, h.since.Add(driver.MaxReservation)
	g := s.grant(h)
	g.TTL, g.From = driver.MaxReservation, driver.SystemClock().Now()
	if s.is(fromToCome) {
		g.From = driver.SystemClock().Now().Add(time.Second)
	}
	if s.w.linger > 0 {
		h.until = h.since.Add(s.w.linger)
	}
	if s.is(reservationForEver) {
		h.until = h.since.Add(24 * time.Hour)
	}
	if s.is(reservationIsShort) {
		h.until = h.since.Add(driver.MaxReservation / 5)
	}
	return g
}

// pause waits, without the world's mutex, until something has changed.
func (s *ref) pause(ctx context.Context, e *entry) error {
	changed, until := e.changed, s.w.nextEnd(e)
	s.w.mu.Unlock()
	defer s.w.mu.Lock()
	t := time.NewTimer(until)
	defer t.Stop()
	done := s.done
	if s.is(closeForgetsWaiters) {
		done = nil
	}
	var alarm <-chan time.Time
	if until > 0 && !s.is(wakesOnlyAtRelease) {
		alarm = t.C
	}
	select {
	case <-changed:
		return nil
	case <-alarm:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return driver.ErrClosed
	}
}

// nextEnd is the time until something in the way ends by itself.
func (w *world) nextEnd(e *entry) time.Duration {
	now, next := w.now(), time.Duration(0)
	ends := []time.Time{e.cooling, e.intends}
	if w.bug == intentEndWakesNobody {
		ends = ends[:1]
	}
	for _, h := range e.holds {
		ends = append(ends, h.until)
	}
	for _, t := range ends {
		if d := t.Sub(now); d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	if w.bug == coolDownUntold {
		next = min(next, 2*time.Second)
	}
	return next
}

func (s *ref) leaveQueue(e *entry, p *waiting, r *driver.Request, why error) error {
	if !s.is(cancelStays) {
		e.leave(p.token)
	}
	if s.is(givenUpWaitDropsHold) {
		s.w.drop(e, r.Token.Text(), driver.OutcomeReleased)
	}
	if !s.is(giveUpWakesNobody) {
		e.signal()
	}
	if s.is(cancelIsARefusal) {
		return s.w.heldError(e, r)
	}
	return why
}

func (e *entry) leave(token string) bool {
	n := len(e.queue)
	e.queue = slices.DeleteFunc(e.queue, func(p *waiting) bool { return p.token == token })
	return len(e.queue) < n
}

// Convert implements driver.Converter.
func (s *ref) Convert(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	if err := s.validate(&r); err != nil {
		return g, err
	}
	err = s.ask(ctx, func() error {
		e := s.w.entry(r.Name)
		h, err := s.w.find(e, r.Token.Text())
		if s.is(convertAnybody) && err != nil && len(e.holds) > 0 && e.past[r.Token.Text()] == 0 && s.w.lives(e.holds[0]) {
			h, err = e.holds[0], nil
		}
		if err != nil && s.is(convertTakes) && s.w.free(e, &r) && len(e.holds) > 0 {
			h, err = s.add(e, &r, r.TTL), nil
		}
		if err == nil {
			g, err = s.convert(e, h, &r)
		}
		if !s.is(demotionWakesNobody) || !r.Shared {
			e.signal()
		}
		return err
	})
	return g, s.blab(err, r.Token.Text())
}

func (s *ref) convert(e *entry, h *hold, r *driver.Request) (driver.Grant, error) {
	if s.w.full && s.is(fullDemotesNothing) {
		return driver.Grant{}, driver.ErrUnavailable
	}
	if s.w.full && s.is(fullPromotionLosesHold) && h.shared && !r.Shared {
		s.w.drop(e, h.token, driver.OutcomeTaken)
		return driver.Grant{}, errFull
	}
	if h.shared == r.Shared && s.is(sameModeRefused) && !h.shared {
		return driver.Grant{}, driver.ErrLost
	}
	if h.shared && !r.Shared {
		if err := s.promote(e, h, r); err != nil {
			return driver.Grant{}, err
		}
	}
	if e.intent == h.token && !s.is(intentNotWithdrawn) {
		e.intent = ""
	}
	if !h.shared && r.Shared && s.is(demotionMints) {
		h.fence = s.w.mint(e, 0)
	}
	if !s.is(demotionDoesNothing) || !r.Shared {
		h.shared = r.Shared
	}
	end := s.w.now().Add(r.TTL)
	switch {
	case !s.w.g.Lease || s.is(convertKeepsLease):
	case s.is(convertShortens):
		h.until = end
	default:
		h.until = later(h.until, end)
	}
	return s.grant(h), nil
}

func (s *ref) promote(e *entry, h *hold, r *driver.Request) error {
	w := s.w
	if s.w.g.Promotion == driver.PromotionNone && !s.is(promotesAnyway) {
		return errors.ErrUnsupported
	}
	if t := w.intending(e); t != "" && t != h.token && !s.is(promotersWaitForEachOther) {
		return driver.ErrPromotionConflict
	}
	if others := slices.ContainsFunc(e.holds, func(o *hold) bool { return o != h && w.lives(o) }); others && !s.is(promotesAmongReaders) {
		e.intent, e.intends = h.token, w.now().Add(driver.MaxIntent)
		if s.is(refusedPromotionLengthens) {
			h.until = later(h.until, w.now().Add(r.TTL))
		}
		if s.is(promotionLosesHold) || w.g.Promotion == driver.PromotionRegrant {
			w.drop(e, h.token, driver.OutcomeTaken)
			e.intent = ""
		}
		if w.g.Promotion == driver.PromotionRegrant {
			return driver.ErrLost
		}
		return w.heldError(e, r)
	}
	if w.usedUp(e) {
		return driver.ErrFencesUsedUp
	}
	if !s.is(promotionKeepsFence) {
		h.fence = w.mint(e, 0)
	}
	return nil
}

// intending returns the token of the reader whose intent keeps others out, or "".
func (w *world) intending(e *entry) string {
	if w.bug != intentForEver && !e.intends.After(w.now()) {
		return ""
	}
	if w.bug != intentOutlivesRelease && w.live(e, e.intent) == nil {
		return ""
	}
	return e.intent
}

func (s *ref) validate(r *driver.Request) error {
	g := s.w.g
	if s.is(anyTTL) {
		r.TTL = max(driver.MinTTL, r.TTL)
	}
	if s.is(anyLabel) && len(r.Holder.Label) > driver.MaxLabel {
		r.Holder.Label = r.Holder.Label[:driver.MaxLabel]
	}
	err := r.Validate(&g)
	if err != nil && s.is(invalidUnnamed) {
		return driver.ErrInvalid
	}
	return err
}

func (s *ref) check(name, token, param string, d time.Duration) error {
	err := driver.CheckName(name, &s.w.g)
	if s.is(anyName) {
		err = nil
	}
	if err == nil && !s.is(anyToken) {
		err = driver.CheckToken(token)
	}
	switch {
	case err != nil || d == 0:
	case param == "keep" && !s.is(keepsAreLeases):
		if err = driver.CheckKeep(param, d, &s.w.g); err != nil && s.is(invalidUnnamed) {
			err = driver.ErrInvalid
		}
	default:
		err = driver.CheckTTL(param, d, &s.w.g)
	}
	return err
}

// blab puts the token into the error, if that is the bug.
func (s *ref) blab(err error, token string) error {
	if err != nil && s.is(tokenInError) {
		return fmt.Errorf("hold %s: %w", token, err)
	}
	return err
}

// mangle changes names as wrong stores do.
func mangle(b bug, name string) string {
	switch b {
	case namesCut:
		return name[:min(len(name), 255)]
	case namesFolded:
		if utf8.ValidString(name) {
			return strings.ToLower(name)
		}
	case namesHashed:
		return fmt.Sprint(crc32.ChecksumIEEE([]byte(name)))
	case namesTrimmed:
		return strings.TrimRight(name, " ")
	case namesCleaned:
		return path.Clean(name)
	case namesUTF8:
		return strings.ToValidUTF8(name, "?")
	case namesEndAtZero:
		name, _, _ := strings.Cut(name, "\x00")
		return name
	case namesHaveSlots:
		_, rest, _ := strings.Cut(name, "{")
		if slot, _, ok := strings.Cut(rest, "}"); ok && slot != "" {
			return slot
		}
	case slotsShareALock:
		if base, _, ok := fast.SplitSlot(name); ok {
			return base + "'s slots"
		}
	case namesHaveKeys:
		return strings.TrimSuffix(name, ":fence")
	}
	return name
}

func (w *world) heldError(e *entry, r *driver.Request) error {
	err := &driver.HeldError{Holds: w.reports(e, r.Token.Text()), Waiters: len(e.queue)}
	for _, h := range err.Holds {
		err.Until = later(err.Until, h.Until)
	}
	if w.bug == heldErrorIsPlain {
		return driver.ErrHeld
	}
	return err
}

func (w *world) reports(e *entry, except string) (out []driver.Hold) {
	wall := func(t time.Time) time.Time { return time.Now().Add(t.Sub(w.now())) }
	for _, h := range e.holds {
		if h.token == except || !w.lives(h) && w.bug != inspectTellsLapsed {
			continue
		}
		v := driver.Hold{Holder: h.holder, Shared: h.shared, Since: wall(h.since), Foreign: h.owner == nil}
		if w.g.Lease {
			v.Until = wall(h.until)
		}
		if h.holder.Plan > 0 {
			v.PlannedEnd = v.Since.Add(h.holder.Plan)
		}
		out = append(out, w.garble(v))
	}
	if e.cooling.After(w.now()) {
		out = append(out, driver.Hold{Cooling: w.bug != coolDownLooksHeld, Until: wall(e.cooling)})
	}
	if w.bug == heldByTheFirst && len(out) > 1 {
		out = out[:1]
	}
	return out
}

func (w *world) garble(v driver.Hold) driver.Hold {
	cut := w.bug == holdersLabelCut || w.bug == readersLabelCut && v.Shared
	if cut && len(v.Label) == driver.MaxLabel {
		v.Label = v.Label[:driver.MaxLabel-1]
	}
	switch w.bug {
	case heldByNobody:
		v.Holder = driver.Holder{}
	case heldSinceLong:
		v.Since = v.Since.Add(-time.Hour)
	case heldWithoutPlan:
		v.PlannedEnd = time.Time{}
	case heldUntilTheStart:
		v.Until = v.Since.Add(10 * time.Second)
	}
	return v
}
