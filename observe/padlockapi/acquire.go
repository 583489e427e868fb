package padlockapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// acquire takes the lock for the token of the client. If it has to wait, the wait outlives the
// request; see waits.
func acquire(q *query) reply {
	if r := q.checkAcquire(); r.status != 0 {
		return r
	}
	id := q.waitID()
	if !q.api.ledger.room(q.client, id, q.api.clock.Now()) {
		return refuseUntil(http.StatusTooManyRequests, "too_many", "this visitor has too many locks", time.Second)
	}
	if r := q.gone(); r.status != 0 {
		return r
	}
	poll := min(duration(q.waitMS), MaxPoll)
	if poll <= 0 {
		return q.acquireNow(id)
	}
	q.keepConnection(poll)
	one, found, err := q.api.waits.join(id, q.client, mode{q.shared, q.slots}, q.take)
	if err != nil {
		return refuseWait(err)
	}
	defer q.api.waits.leave(id, one)
	if found {
		// A repeat on another server may have got the lock for this token meanwhile.
		ctx, cancel := q.patient()
		defer cancel()
		if r := q.try(ctx); r.status != http.StatusConflict {
			if r.status == http.StatusOK {
				q.api.waits.end(ctx, id)
			}
			return r
		}
	}
	return q.await(one, poll)
}

// acquireNow ends the wait for the token, if there is one, and makes one try.
func (q *query) acquireNow(id waitID) reply {
	ctx, cancel := q.patient()
	defer cancel()
	before, done := q.api.waits.end(ctx, id)
	if !done {
		return failure(padlock.ErrUncertain)
	}
	r := q.try(ctx)
	if r.status == http.StatusConflict && before.uncertain() {
		return failure(padlock.ErrUncertain)
	}
	return r
}

// gone refuses a request whose client has gone, as after a time in which this server stood still.
// The client may have got the lock elsewhere and have released it: then nobody would release the
// lock that the token gets now.
func (q *query) gone() reply {
	if q.r.Context().Err() == nil {
		return reply{}
	}
	return refuseUntil(http.StatusServiceUnavailable, "unavailable", "the request has ended, and nothing was changed; send it again", time.Second)
}

// checkAcquire finds the errors in the request that the Locker does not find.
func (q *query) checkAcquire() reply {
	r := q.checkStore()
	switch {
	case r.status != 0:
		return r
	case q.replaces != "" && (q.waitMS > 0 || q.has("slots")):
		return refuse(http.StatusBadRequest, "invalid", "replaces cannot be sent together with wait_ms or slots")
	case len(q.token) < minToken:
		return refuse(http.StatusBadRequest, "invalid", fmt.Sprintf("the token has %d characters, at least %d are needed; make a random one for each piece of work", len(q.token), minToken))
	case q.has("slots") && (q.slots < 1 || q.slots > fast.MaxSlots):
		return refuse(http.StatusBadRequest, "invalid", fmt.Sprintf("slots must be 1 to %d", fast.MaxSlots))
	}
	return reply{}
}

// checkStore refuses every lock of a store whose locks cannot be taken over HTTP.
func (q *query) checkStore() reply {
	if g := q.where.locker.Guarantees(); !g.Lease && !g.Detached || g.RefusedIsSpent {
		return refuse(http.StatusNotImplemented, "unsupported", fmt.Sprintf("locks in a store of the kind %q cannot be taken over HTTP: they have no lease, or no token can be repeated", g.Store))
	}
	return reply{}
}

// await waits until the wait is done, the context of the request ends or poll is over. The context
// may end although the client is there, for example at a time limit of the server. Then the client
// must not take the answer for a lock.
func (q *query) await(one *wait, poll time.Duration) reply {
	timer := time.NewTimer(poll - q.elapsed())
	defer timer.Stop()
	select {
	case <-one.done:
		if one.err != nil {
			return refuseWait(one.err)
		}
		return q.grant(one.held)
	case <-timer.C:
	case <-q.r.Context().Done():
	}
	return reply{http.StatusAccepted, waiting{Token: q.token, RetryMS: 1}}
}

// keepConnection lifts the time limits of the server for a request that waits. With a limit for the
// whole request, net/http would take the client for gone when it is over.
func (q *query) keepConnection(poll time.Duration) {
	c := http.NewResponseController(q.rw)
	_ = c.SetReadDeadline(time.Time{}) // a server without limits for its connections needs no change
	_ = c.SetWriteDeadline(time.Now().Add(poll + patience))
}

// take waits for the lock. It runs in the goroutine of a wait.
func (q *query) take(ctx context.Context) (held, error) {
	lock, err := q.where.locker.Acquire(ctx, q.name, q.options()...)
	if err != nil {
		return held{}, err
	}
	h, err := q.detach(context.WithoutCancel(ctx), lock)
	if err == nil {
		q.note(h.until, h.slot) // the client may never ask for the result, but release it
	}
	return h, err
}

// try makes one try, or repeats an earlier one. With replaces, the token gets the hold of the other
// token.
func (q *query) try(ctx context.Context) reply {
	if r := q.gone(); r.status != 0 {
		return r
	}
	lock, err := q.lock(ctx)
	if err != nil {
		return failure(err)
	}
	h, err := q.detach(ctx, lock)
	if err != nil {
		return failure(err)
	}
	return q.grant(h)
}

func (q *query) lock(ctx context.Context) (*padlock.Lock, error) {
	if !q.has("replaces") {
		return q.where.locker.TryAcquire(ctx, q.name, q.options()...)
	}
	mode := padlock.ModeExclusive // a client that has a permit or a shared lock says so
	if q.shared {
		mode = padlock.ModeShared
	}
	key, err := padlock.KeyFor(q.name, q.replaces, mode)
	if err != nil {
		return nil, err
	}
	return q.where.locker.Adopt(ctx, key, q.options()...)
}

// held is a lock that was granted.
type held struct {
	until  driver.Instant // the lock can be used until then
	fence  uint64
	slot   int // -1 if the lock is no permit
	shared bool
}

// detach makes the lock independent of this process: Close does not release it. Only the client,
// whose next request may come to another server, knows when the lock ends. The Locker
// does not keep an exported hold in memory.
func (q *query) detach(ctx context.Context, lock *padlock.Lock) (held, error) {
	now := q.api.clock.Now() // before Remaining, so that until is not too late
	h := held{now.Add(lock.Remaining()), lock.Fence(), lock.Slot(), lock.Shared()}
	_, err := lock.Export(ctx)
	return h, err
}

func (q *query) options() []padlock.Option {
	ttl := padlock.DefaultTTL
	g := q.where.locker.Guarantees()
	if q.has("ttl_ms") {
		ttl = duration(q.ttlMS)
	} else if g.MaxTTL > 0 {
		ttl = min(ttl, g.MaxTTL)
	}
	opts := []padlock.Option{padlock.Token(q.token), padlock.TTL(ttl), padlock.NoRenewal(), padlock.Label(q.fullLabel())}
	if g.Bound != driver.BoundToNothing {
		opts = append(opts, padlock.Detached())
	}
	if q.shared {
		opts = append(opts, padlock.Shared())
	}
	if q.has("slots") {
		opts = append(opts, padlock.Slots(int(q.slots)))
	}
	if q.keepMS > 0 {
		opts = append(opts, padlock.HoldAtLeast(duration(q.keepMS)))
	}
	if q.fenceAbove > 0 {
		opts = append(opts, padlock.FenceAbove(uint64(q.fenceAbove)))
	}
	return opts
}

func (q *query) fullLabel() string { return q.signed(q.label, 0) }

// signed returns the text with the client as this server sees it, if the label of a lock has room
// for that and for as many bytes more: the host and the process of a holder are those of this server.
func (q *query) signed(text string, more int) string {
	seen := q.from
	if q.who.Name != "" {
		seen = q.who.Name + ", " + seen
	}
	full := "(" + seen + ")"
	if text != "" {
		full = text + " " + full
	}
	most := driver.MaxLabel
	if g := q.where.locker.Guarantees(); g.MaxLabel > 0 {
		most = min(most, g.MaxLabel)
	}
	if len(full)+more > most {
		return text
	}
	return full
}

// grant answers with a lock. The time for which the lock is valid counts from the moment at which
// the client sent the request. That was before this server read it, so the time for which the
// server has kept the request is added to the rest of the lease.
func (q *query) grant(h held) reply {
	if h.until <= q.api.clock.Now() {
		return refuse(http.StatusGone, "expired", "the lease was over before this answer; ask for a longer one with a new token")
	}
	out := granted{Token: q.token, Fence: h.fence, ValidMS: h.until.Sub(q.at).Milliseconds(), Shared: h.shared}
	attrs := []slog.Attr{slog.String("name", q.name), slog.Uint64("fence", out.Fence), slog.Bool("shared", h.shared)}
	if h.slot >= 0 {
		out.Slot = &h.slot
		attrs = append(attrs, slog.Int("slot", h.slot))
	}
	q.note(h.until, h.slot)
	q.audit(slog.LevelInfo, "grant", attrs...)
	return reply{http.StatusOK, out}
}
