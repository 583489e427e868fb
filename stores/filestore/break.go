package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Break implements driver.Admin as far as possible: it ends a cool-down or a detached hold. It
// cannot end a hold that belongs to a process, and returns errors.ErrUnsupported while there is
// one.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return 0, err
	}
	f, err := s.beginCall(ctx, name)
	if err != nil {
		return 0, err
	}
	defer s.endCall(f)
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	var fence uint64
	c, err := s.lockLease(f, false, func(c *conn) error {
		rec := b.read(c)
		if err := rec.hands(f.path); err != nil {
			return err
		}
		if rec.fence != seenFence {
			return fmt.Errorf("%w: the fence of the name is %d", driver.ErrLost, rec.fence)
		}
		fence, err = s.endCoolDown(f, c, b)
		return err
	})
	var held *refusal
	switch {
	case errors.As(err, &held):
		return 0, fmt.Errorf("a file lock ends only when the processes that have it end, so end those processes: %w", errors.ErrUnsupported)
	case err != nil:
		return 0, err
	}
	s.giveBack(f, c)
	return fence, nil
}

// endCoolDown writes a record with a new fence, and without a cool-down or a lease.
func (s *Store) endCoolDown(f *file, c *conn, b *buffer) (uint64, error) {
	fence, _, err := mint(b.rec.fence, 0, false, s.config.wall())
	if err != nil {
		return 0, err
	}
	b.next = record{fence: fence, epoch: fence, name: bytesOf(f.name)}
	if err := b.write(c); err != nil {
		return 0, unavailable(f.path, err)
	}
	return fence, nil
}
