package padlock

import (
	"context"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// renewal is one renewal under way.
type renewal struct {
	cancel    context.CancelFunc // nil until the request is sent
	done      chan struct{}      // closed when the renewal ends; made by a Release that waits for that
	brokenOff bool               // a Release cancelled the renewal
}

// mostTogether is the largest number of holds that one request renews. A store may divide a batch
// further.
const mostTogether = 2048

// hasRoom reports whether one request can renew more holds than those that are due. If so, tick
// adds holds that will be due soon. If there is no room, tick adds none. So thousands of holds that
// were taken at the same time are not renewed at the same time for ever. The caller holds mu.
func (k *renewer) hasRoom() bool { return len(k.due) < mostTogether }

// needsWorker reports whether another worker is needed, because the workers that are about to begin
// cannot take all holds that are due. The caller holds mu.
func (k *renewer) needsWorker() bool {
	if k.batcher == nil {
		return true
	}
	return k.starting*mostTogether < len(k.due)
}

// takeDue takes holds that are due and can be renewed with one request. It returns no holds if none
// of the queued holds needs a renewal any more. The caller holds mu.
func (k *renewer) takeDue() (holds []*hold) {
	for len(k.due) > 0 && len(holds) < mostTogether {
		h := k.due[0]
		needed := h.renewing != nil && h.cause == nil
		if needed && len(holds) > 0 && k.batcher == nil {
			return holds
		}
		k.due[0] = nil
		k.due = k.due[1:]
		if !needed {
			h.renewing = nil
			continue
		}
		holds = append(holds, h)
	}
	return holds
}

// renewalBatch contains the renewals that are sent with one request.
type renewalBatch struct {
	ctx        context.Context
	cancel     context.CancelFunc
	holds      []*hold
	batcher    driver.BatchExtender
	incomplete bool // the store did not answer for every hold
}

// A Release waits for a renewal of its hold that is under way. If the request also renews other
// holds, the Release waits for firstPatience and then cancels the request. The Locker at once sends
// a second request, which renews the other holds.
//
// During the second request, a Release of one of those holds waits for secondPatience. That is
// longer, because Releases must not cancel one request after another. If they did, a slow store
// would not renew the remaining holds in time.
const (
	firstPatience  = 50 * time.Millisecond
	secondPatience = time.Second
)

// isBrokenOff reports whether a Release has cancelled the request.
func (b *renewalBatch) isBrokenOff() bool { return b.ctx.Err() == context.Canceled }

// newBatch makes the batch for a request that renews the given holds. The caller holds mu.
func (k *renewer) newBatch(holds []*hold) *renewalBatch {
	b := &renewalBatch{holds: holds, batcher: k.batcher}
	now := k.l.clock.Now()
	patience := holds[0].patience(now)
	for _, h := range holds[1:] {
		patience = min(patience, h.patience(now))
	}
	b.ctx, b.cancel = context.WithTimeout(k.ctx, patience)
	leave := b.cancel
	if len(holds) > 1 {
		wait := firstPatience
		if slices.ContainsFunc(holds, func(h *hold) bool { return h.cutOff }) {
			wait = secondPatience
		}
		leave = func() { k.l.clock.AfterFunc(wait, b.cancel) }
	}
	for _, h := range holds {
		h.renewing.cancel = leave
	}
	return b
}

// askStore returns the store's answer for each hold.
func (b *renewalBatch) askStore(store driver.Store) []driver.Extended {
	if len(b.holds) > 1 {
		together, err := b.together()
		if err == nil && len(together) == len(b.holds) {
			return together
		}
		if err != nil {
			return slices.Repeat([]driver.Extended{{Err: err}}, len(b.holds))
		}
		b.incomplete = true
	}
	answers := make([]driver.Extended, len(b.holds))
	for i, h := range b.holds {
		answers[i].Grant, answers[i].Err = store.Extend(b.ctx, h.name, h.token, h.ttl)
	}
	return answers
}

func (b *renewalBatch) together() ([]driver.Extended, error) {
	all := make([]driver.Extension, len(b.holds))
	for i, h := range b.holds {
		all[i] = driver.Extension{Name: h.name, Token: h.token, TTL: h.ttl}
	}
	return b.batcher.ExtendBatch(b.ctx, all)
}

// patience is how long one renewal may take. It is at most half of the remaining time, so that
// there is time for another try.
func (h *hold) patience(now driver.Instant) time.Duration {
	return min(h.ttl/6, driver.Instant(h.usable.Load()).Sub(now)/2)
}

// request returns a request for h's token.
func (h *hold) request(shared bool) driver.Request {
	l := h.locker
	return driver.Request{
		Name: h.name, Token: h.token, Shared: shared, TTL: h.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
	}
}
