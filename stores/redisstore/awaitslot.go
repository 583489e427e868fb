package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// AwaitSlot implements driver.SlotQueuer. The waiters are in the queue of the gate. When a permit
// is released, one request reserves the permit for the first waiter and passes the gate to the
// second waiter. slot_pass.lua has the states of a waiter. AwaitSlot returns errors.ErrUnsupported
// if n is more than 16, and otherwise in the same cases as AcquireSlot.
func (s *Store) AwaitSlot(ctx context.Context, r driver.Request, n int) (int, driver.Grant, error) {
	if err := s.checkSlots(&r, n); err != nil {
		return 0, driver.Grant{}, err
	}
	if n > mostWatched || !s.fast(&r) || s.config.strings && !s.config.fences {
		return 0, driver.Grant{}, errors.ErrUnsupported
	}
	s.mu.Lock()
	if err := s.enter(ctx); err != nil {
		s.mu.Unlock()
		return 0, driver.Grant{}, err
	}
	s.subscriber.waits.Add(1)
	s.mu.Unlock()
	defer s.subscriber.waits.Done()
	ends, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	a := slotWait{wait: wait{s: s, ctx: ends, caller: ctx, r: &r, reserve: true, slot: -1, w: s.subscriber.add(&r, false)}, n: n}
	defer s.subscriber.remove(a.w)
	slot, g, err := a.await()
	switch {
	case err == nil:
		s.handed.add(r.Token, handedOver{passed: true, permits: n})
	case a.sent:
		s.jobs.Go(a.giveUp)
	}
	return slot, g, err
}

// slotWait is one call of AwaitSlot.
type slotWait struct {
	wait
	n       int
	channel string // the channel of the last look
}

func (a *slotWait) await() (slot int, g driver.Grant, err error) {
	for {
		slot, g, next, err := a.look()
		if err == nil && next == 0 {
			return slot, g, nil
		}
		if err != nil {
			if err = a.waitEnded(err); err != nil {
				return 0, driver.Grant{}, err
			}
			next = spread(a.pause())
		}
		g, called, err := a.sleepUntil(next)
		if err != nil || a.slot >= 0 {
			return max(a.slot, 0), g, err
		}
		a.queued = a.queued && !called
	}
}

// look asks the server for the state of the permits. The first time, it joins the queue. Later
// calls also show the server that the waiter is alive. If the wait goes on, look returns the time
// until the next look. Otherwise that time is 0, and look returns the permit.
func (a *slotWait) look() (slot int, g driver.Grant, next time.Duration, err error) {
	s := a.s
	c, on, err := a.listening(true)
	if err != nil {
		return 0, g, 0, err
	}
	a.sent, a.channel = true, on.channel
	if !a.joined {
		a.joined = true
		if next, err := a.join(c); next > 0 || err != nil {
			a.queued = next > 0
			return 0, g, next, err
		}
	}
	began := s.beginSample()
	reply, err := a.run(a.ctx, c, true)
	if err != nil {
		return 0, g, 0, err
	}
	a.down, a.retry = 0, 0
	// No message has come since the last look. If the waiter now has a permit, or has lost its
	// place, a message was sent and did not arrive.
	if a.queued && (reply.kind != replyWait || reply.number(1) == 1) {
		on.maybeDead()
	}
	a.queued = reply.kind == replyWait
	switch reply.kind {
	case replyWait:
		s.samples.addSample(began, reply.number(2))
		a.asked = a.asked && reply.number(0) <= 2*driver.MaxReservation.Milliseconds()
		return 0, g, max(time.Millisecond, time.Duration(reply.number(0))*time.Millisecond), nil
	case replyGranted:
		g = driver.Grant{Fence: s.callerFence(reply.number(1)), From: began.sent, TTL: time.Duration(reply.number(2)) * time.Millisecond}
		g, err = s.confirmed(a.ctx, a.r, g, nil)
		return int(reply.number(0)), g, 0, err
	}
	_, err = s.grant(&reply)
	return 0, g, 0, err
}

// join sends the first request of a waiter. If the gate is held, the script puts the waiter into
// the queue of the gate, and join returns the time until the next look. If join returns 0, the full
// script must run.
func (a *slotWait) join(c *connected) (next time.Duration, err error) {
	s, r := a.s, a.r
	keys := s.keys.lock(driver.SlotGate(r.Name, a.n)).allKeys()
	began := s.beginSample()
	m, err := s.scripts.join.do(a.ctx, c, keys[:4], []string{r.Token, a.channel + " " + itoa(int64(a.w.id)) + " p 0 " + s.formats.holder(&r.Holder).text}).ToMessage()
	if err != nil {
		return 0, s.failure(a.ctx, err)
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) < 2 {
		return 0, err
	}
	s.samples.addSample(began, number(&parts[1]))
	return time.Duration(number(&parts[0])) * time.Millisecond, nil
}

// run sends the script of AwaitSlot. If waits is false, the waiter has given up: the script removes
// the waiter from the queue and releases its permit.
func (a *slotWait) run(ctx context.Context, c *connected, waits bool) (answer, error) {
	s, r := a.s, a.r
	all := s.keys.lock(driver.SlotGate(r.Name, a.n)).allKeys()
	keys := append(make([]string, 0, len(all)*(1+a.n)), all[:]...)
	for i := range a.n {
		all := s.keys.lock(driver.SlotName(r.Name, i)).allKeys()
		keys = append(keys, all[:]...)
	}
	return s.readAnswer(ctx, bothSlotScripts[s.config.strings]().await.do(ctx, c, keys, []string{
		c.setting, r.Token, "p", fence(0), s.formats.holder(&r.Holder).text, a.channel, itoa(int64(a.w.id)),
		digit(waits), digit(a.asked), s.formats.ttl(r.TTL).lease,
	}))
}

// giveUp removes the waiter from the queue, and releases the permit that the waiter may have got
// meanwhile. It uses a new context, because the caller's context may have ended.
func (a *slotWait) giveUp() {
	ctx, cancel := context.WithTimeout(context.Background(), driver.MaxSilence/2)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		c, err := a.s.readyClient(ctx, false)
		if err == nil {
			_, err = a.run(ctx, c, false)
		}
		if err == nil || errors.Is(err, driver.ErrClosed) || a.s.sleep(ctx, pause) != nil {
			return
		}
	}
}
