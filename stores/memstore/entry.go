package memstore

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func (e *entry) find(token string) *hold {
	for i := range e.holds {
		if e.holds[i].token == token {
			return &e.holds[i]
		}
	}
	return nil
}

func (e *entry) live(token string, now driver.Instant) *hold {
	if h := e.find(token); h != nil && h.until > now {
		return h
	}
	return nil
}

// dropLapsed removes the holds whose leases ran out, because another caller gets the name. From
// then on the error for their tokens is ErrLost, not ErrExpired.
func (e *entry) dropLapsed(now driver.Instant) {
	kept := e.holds[:0]
	for i := range e.holds {
		if e.holds[i].until > now {
			kept = append(kept, e.holds[i])
		} else {
			e.lose(e.holds[i].token)
		}
	}
	clear(e.holds[len(kept):])
	e.holds = kept
}

// dropAll removes all holds by force.
func (e *entry) dropAll() {
	for i := range e.holds {
		e.lose(e.holds[i].token)
	}
	clear(e.holds)
	e.holds = e.holds[:0]
}

// maxLost is how many lost tokens an entry remembers. It forgets the oldest token first. Then it
// can no longer tell what became of the hold of that token.
const maxLost = 16

func (e *entry) lose(token string) {
	if len(e.lost) == maxLost {
		e.lost = slices.Delete(e.lost, 0, 1)
	}
	e.lost = append(e.lost, token)
}

// isBusy reports whether e is held, waited for or cooling down.
func (e *entry) isBusy(now driver.Instant) bool {
	for i := range e.holds {
		if e.holds[i].until > now {
			return true
		}
	}
	return len(e.queue)+len(e.watchers) > 0 || e.cooling > now
}

// blocked reports whether r must wait for a holder, a cool-down, the promotion of a reader, or an
// earlier waiter. It is called for a request whose token has no hold.
func (e *entry) blocked(r *driver.Request, now driver.Instant) bool {
	return e.excluded(r, now) || len(e.queue) > 0
}

func (e *entry) excluded(r *driver.Request, now driver.Instant) bool {
	if e.cooling > now {
		return true
	}
	if r.Shared && e.intentToken(now) != "" {
		return true
	}
	for i := range e.holds {
		h := &e.holds[i]
		if h.until > now && h.token != r.Token && !(h.shared && r.Shared) {
			return true
		}
	}
	return false
}

// hasReader reports whether e has a live reader.
func (e *entry) hasReader(now driver.Instant) bool {
	return slices.ContainsFunc(e.holds, func(h hold) bool { return h.shared && h.until > now })
}

// intentToken returns the token of the reader that waits to be promoted, or "".
func (e *entry) intentToken(now driver.Instant) string {
	if e.intent.until > now && e.live(e.intent.token, now) != nil {
		return e.intent.token
	}
	return ""
}

func (e *entry) withdraw(token string) {
	if e.intent.token == token {
		e.intent = intent{}
	}
}

// promote returns nil if the shared hold of r may become exclusive. If other readers are in the
// way, it notes the intent.
func (e *entry) promote(r *driver.Request, now driver.Instant) error {
	if t := e.intentToken(now); t != "" && t != r.Token {
		return driver.ErrPromotionConflict
	}
	for i := range e.holds {
		if h := &e.holds[i]; h.until > now && h.token != r.Token {
			e.intent = intent{r.Token, now.Add(driver.MaxIntent)}
			return e.heldError(r, now)
		}
	}
	return nil
}

// heldError returns the error for the request r, which must wait. The error lists the holds of
// other tokens, with times of the wall clock.
func (e *entry) heldError(r *driver.Request, now driver.Instant) error {
	err := &driver.HeldError{Holds: e.describeHolds(now, time.Now(), r.Token), Waiters: len(e.queue)}
	for i := range err.Holds {
		if u := err.Holds[i].Until; u.After(err.Until) {
			err.Until = u
		}
	}
	return err
}

// describeHolds describes all holds except the hold of ownToken. The times in the result are
// wall-clock times. now and wall are the same instant, on the lease clock and on the wall clock.
func (e *entry) describeHolds(now driver.Instant, wall time.Time, ownToken string) []driver.Hold {
	at := func(i driver.Instant) time.Time { return wall.Add(i.Sub(now)) }
	var out []driver.Hold
	for i := range e.holds {
		h := &e.holds[i]
		if h.until <= now || h.token == ownToken {
			continue
		}
		report := driver.Hold{Holder: h.holder, Shared: h.shared, Since: at(h.since), Until: at(h.until)}
		if h.holder.Plan > 0 {
			report.PlannedEnd = at(h.since.Add(h.holder.Plan))
		}
		out = append(out, report)
	}
	if e.cooling > now {
		out = append(out, driver.Hold{Cooling: true, Holder: e.cooled, Until: at(e.cooling), PlannedEnd: at(e.cooling)})
	}
	return out
}

// leaveQueues removes token from the queue and the watchers. It returns the waiter, or nil.
func (e *entry) leaveQueues(token string) (left *waiter) {
	for _, list := range []*[]*waiter{&e.queue, &e.watchers} {
		if i := slices.IndexFunc(*list, func(w *waiter) bool { return w.r.Token == token }); i >= 0 {
			left = (*list)[i]
			*list = slices.Delete(*list, i, i+1)
		}
	}
	return left
}

func (e *entry) state(now driver.Instant, wall time.Time) driver.State {
	return driver.State{Name: e.name, Holds: e.describeHolds(now, wall, ""), Fence: e.fence, Waiters: len(e.queue)}
}
