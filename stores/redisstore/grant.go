package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit"
)

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	c, err := s.ready(ctx, true)
	if err != nil {
		return driver.Grant{}, err
	}
	if s.fast(&r) {
		if g, err, done := s.fastAcquire(ctx, c, &r); done {
			return s.confirmed(ctx, &r, g, err)
		}
	}
	if r.Shared && s.config.strings {
		return driver.Grant{}, errShared
	}
	g, err := s.fullAcquire(ctx, c, &r)
	return s.confirmed(ctx, &r, g, err)
}

// confirmed makes sure that a grant does not come from a server that has restarted. If a connection
// was made or lost since the request was sent, it checks the servers again. A grant that cannot be
// confirmed becomes an error. The lock is not released here: the caller repeats the request or
// releases the token. If a release were sent here, it could reach the server after the repeated
// request, and end the hold that the repeated request has just got.
func (s *Store) confirmed(ctx context.Context, r *driver.Request, g driver.Grant, err error) (driver.Grant, error) {
	if err != nil || s.checks.valid.Load() {
		return g, err
	}
	if err := s.prepare(ctx, true); err != nil {
		return driver.Grant{}, fmt.Errorf("%w; %w", err, driver.ErrUncertain)
	}
	return g, nil
}

// fullAcquire runs the full script. With the option Foreign, padlock sometimes leaves a name free
// for a short time, so that programs that poll can get it. This time is called a gap. In a gap, the
// script does not grant the name. If nobody has the name, fullAcquire waits until the gap ends, and
// tries again.
func (s *Store) fullAcquire(ctx context.Context, c *connected, r *driver.Request) (driver.Grant, error) {
	if err := s.seen(r.Name); err != nil {
		return driver.Grant{}, err
	}
	g, err := s.askAcquire(ctx, c, r)
	var gap *gapError
	if errors.As(err, &gap) {
		if !storekit.Sleep(ctx, min(gap.left, maxGap)) {
			return g, gap.HeldError
		}
		if g, err = s.askAcquire(ctx, c, r); errors.As(err, &gap) {
			err = gap.HeldError
		}
	}
	return g, err
}

// maxGap limits how long fullAcquire waits for the end of a gap, which is a short time in which
// padlock leaves the name free for programs that poll. A gap lasts for GAP, a constant in
// prelude.lua. maxGap is somewhat longer.
const maxGap = 150 * time.Millisecond

func (s *Store) askAcquire(ctx context.Context, c *connected, r *driver.Request) (driver.Grant, error) {
	return s.granting(ctx, c, s.scripts.acquire, r.Name,
		r.Token.Text(), mode(r.Shared), millis(r.TTL), fence(r.FenceAbove), holderText(&r.Holder), r.Replaces.Text())
}

// Extend implements driver.Store: it is a batch of one hold.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	out, err := s.ExtendBatch(ctx, []fast.Extension{{Name: name, Token: driver.TokenOf(token), TTL: ttl}})
	if err != nil {
		return driver.Grant{}, err
	}
	return out[0].Grant, out[0].Err
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return driver.OutcomeGone, err
	}
	if keep == 0 && !s.config.foreign {
		if done, err := s.fastRelease(ctx, c, name, token); done || err != nil {
			return driver.OutcomeReleased, err
		}
	}
	a, err := s.runScript(ctx, c, s.scripts.release, name, token, millis(keep))
	if err != nil {
		return driver.OutcomeGone, err
	}
	switch a.kind {
	case replyReleased:
		return driver.OutcomeReleased, nil
	case replyExpired:
		return driver.OutcomeExpired, nil
	}
	return driver.OutcomeGone, nil
}

// leave removes the place of a waiter that gave up from the queue. If the waiter has a hold, leave
// releases it. It works during Close too, and uses a context of its own, because the caller's may
// have ended. If the server does not answer for too long, the place stays. When the name is later
// handed over to it, this process gets the message, and leave is called again.
func (s *Store) leave(w *waiter) {
	ctx, cancel := context.WithTimeout(context.Background(), driver.MaxSilence/2)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		err := s.prepare(ctx, false)
		if err == nil {
			_, err = s.runScript(ctx, s.checks.client.Load(), s.scripts.release, w.r.Name, w.r.Token.Text(), "0")
		}
		if err == nil {
			s.subscriber.hasLeft(w)
		}
		if err == nil || errors.Is(err, driver.ErrClosed) || !storekit.Sleep(ctx, pause) {
			return
		}
	}
}

// Convert implements driver.Converter.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return driver.Grant{}, err
	}
	if r.Shared && s.config.strings {
		return driver.Grant{}, errShared
	}
	return s.granting(ctx, c, s.scripts.convert, r.Name, r.Token.Text(), mode(r.Shared), millis(r.TTL), fence(r.FenceAbove))
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, to uint64) error {
	if err := driver.CheckHold(name, token, &s.guarantees); err != nil {
		return err
	}
	if err := driver.CheckFence(to); err != nil {
		return err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return err
	}
	_, err = s.granting(ctx, c, s.scripts.raise, name, token, fence(to))
	return err
}

// Break implements driver.Admin.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return 0, err
	}
	c, err := s.ready(ctx, false)
	if err != nil {
		return 0, err
	}
	seen := "any"
	switch {
	case s.config.fences:
		seen = fence(seenFence)
	case seenFence != 0:
		return 0, driver.ErrLost
	}
	g, err := s.granting(ctx, c, s.scripts.break_, name, seen)
	return g.Fence, err
}

// granting runs a script that returns a grant.
func (s *Store) granting(ctx context.Context, c *connected, sc *script, name string, args ...string) (driver.Grant, error) {
	a, err := s.runScript(ctx, c, sc, name, args...)
	if err != nil {
		return driver.Grant{}, err
	}
	return s.grant(&a)
}
