package filestore

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// RaiseFence implements driver.FenceRaiser. If the fence cannot be written into the file,
// RaiseFence returns driver.ErrUnavailable and changes nothing.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	f, h, err := s.live(ctx, name, token)
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
