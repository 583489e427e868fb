package filestore

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Extend implements driver.Store. It makes the lease of a detached hold last longer. Any other hold
// has no lease, so Extend only checks that the hold still exists, whatever ttl is. Extend returns
// driver.ErrLost if the hold is gone: the lock file was removed or replaced, or a child process
// that got the file (see File) unlocked it.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if ttl != 0 {
		if err := driver.CheckTTL("TTL", ttl, &s.guarantees); err != nil {
			return driver.Grant{}, err
		}
	}
	f, h, err := s.live(ctx, name, token)
	if errors.Is(err, errNoSuchHold) {
		return s.extendLease(ctx, name, token, ttl)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.endCall(f)
	return driver.Grant{Fence: h.fence}, nil
}

// Release implements driver.Store. If a cool-down cannot be written into the file, Release returns
// driver.ErrUnavailable, and the hold stays.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	f, err := s.beginCall(ctx, name)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer s.endCall(f)
	h := f.find(token)
	if h == nil {
		return s.releaseLease(ctx, f, token, keep)
	}
	if h.passed {
		replaced, err := h.wasReplaced(f.path)
		if err != nil {
			return driver.OutcomeGone, err
		}
		if replaced {
			f.forget(h)
			h.conn.close()
			return driver.OutcomeGone, nil
		}
	}
	if err := s.coolDown(ctx, f, h, keep); err != nil {
		return driver.OutcomeGone, err
	}
	f.forget(h)
	outcome := s.letGo(f, h)
	f.reuse(h)
	return outcome, nil
}

// coolDown writes the cool-down of a Release into the record.
func (s *Store) coolDown(ctx context.Context, f *file, h *hold, keep time.Duration) error {
	if keep == 0 && h.intent == 0 || !h.conn.isLinked() {
		return nil
	}
	wall := s.config.wall()
	err := s.changeRecord(ctx, f, h, func(rec *record) {
		if keep > 0 {
			rec.coolFor(momentIn(keep, wall), wall)
		}
		if rec.intent == h.intent {
			rec.intent, rec.intentEnd = 0, moment{}
		}
	})
	if keep == 0 {
		return nil // an intent ends by itself after driver.MaxIntent
	}
	return err
}

// letGo ends a hold. The caller has removed the hold from f.holds, or will do so.
func (s *Store) letGo(f *file, h *hold) driver.Outcome {
	h.claim()
	h.clearReader()
	if h.passed {
		return s.letGoPassed(f, h)
	}
	if !s.giveBack(f, h.conn) {
		return driver.OutcomeGone
	}
	return driver.OutcomeReleased
}
