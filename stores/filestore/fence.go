package filestore

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// RaiseFence implements driver.FenceRaiser. If the fence cannot be written into the file,
// RaiseFence returns driver.ErrUnavailable and changes nothing.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	f, h, err := s.live(ctx, name, token)
	if errors.Is(err, errNoSuchHold) {
		return s.raiseLease(ctx, name, token, fence)
	}
	if err != nil {
		return err
	}
	defer s.endCall(f)
	if fence <= h.fence {
		return nil
	}
	old := h.fence
	h.fence = fence
	if err := s.changeRecord(ctx, f, h, func(*record) {}); err != nil {
		h.fence = old
		return err
	}
	return nil
}

// raiseLease does the work of RaiseFence for a detached hold.
func (s *Store) raiseLease(ctx context.Context, name, token string, fence uint64) error {
	f, err := s.beginCall(ctx, name)
	if err != nil {
		return err
	}
	defer s.endCall(f)
	if _, left, err := s.sharedLease(f, token); err != nil {
		return err
	} else if left > 0 {
		return s.changeSharedLease(ctx, f, token, func(l *readerRecord, _ time.Duration, _ time.Time) {
			l.id = max(l.id, fence)
		})
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	c, err := s.changeLease(f, token, b, func(left time.Duration, _ time.Time) error {
		if left == 0 {
			return errNoSuchHold
		}
		b.next = b.rec
		b.next.fence = max(b.rec.fence, fence)
		return nil
	})
	if err != nil {
		return err
	}
	f.unlockSpare(c) // the name stays taken
	return nil
}
