package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store. It makes one try. A shared request may wait up to 2 seconds
// (normally some microseconds) for other readers that are changing the record. Acquire returns
// driver.ErrUnavailable, with advice, if the lock file cannot be used.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, err := s.beginCall(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.endCall(f)
	h, err := s.findLive(f, r.Token.Text())
	switch {
	case err != nil:
		return driver.Grant{}, err
	case r.Detached && (h == nil || h.reserved != nil):
		lease := r // a copy, because acquireLease moves its request to the heap
		return s.acquireLease(ctx, f, &lease, h)
	case h != nil: // an earlier Acquire or Wait got it
		h.claim()
	default:
		if h, err = s.acquire(ctx, f, &r); err != nil {
			return driver.Grant{}, err
		}
	}
	return driver.Grant{Fence: h.fence, Shared: h.shared}, nil
}

func (s *Store) check(r *driver.Request) error {
	if err := r.Validate(&s.guarantees); err != nil {
		return err
	}
	if r.Replaces.Text() != "" && !r.Detached {
		return fmt.Errorf("hand-over: a hold on a file belongs to its process: %w", errors.ErrUnsupported)
	}
	return nil
}

func (s *Store) acquire(ctx context.Context, f *file, r *driver.Request) (h *hold, err error) {
	var m manners
	err = s.insist(f, func() (err error) {
		h, err = s.try(ctx, f, r, &m)
		return err
	})
	return h, err
}

// try makes one attempt to take the lock.
func (s *Store) try(ctx context.Context, f *file, r *driver.Request, m *manners) (h *hold, err error) {
	if err := s.letPass(f, r.Shared, m); err != nil {
		return nil, err
	}
	if r.Shared {
		recordLock, err := s.lockRecord(ctx, f)
		if err != nil {
			return nil, err
		}
		defer recordLock.close()
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	_, err = s.lock(f, r.Shared, func(c *conn) error {
		h, err = s.grant(f, c, r, b, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.holds = append(f.holds, h)
	return h, nil
}

// grant makes a hold, if the record allows it. The caller has already taken the kernel's lock
// through c.
func (s *Store) grant(f *file, c *conn, r *driver.Request, b *buffer, m *manners) (*hold, error) {
	rec := b.read(c)
	wall := s.config.wall()
	if err := rec.admits(f.path, r.Shared, wall); err != nil {
		return nil, err
	}
	if no := s.yield(c, r.Shared, m); no != nil {
		return nil, no
	}
	fence, stored, err := mint(rec.fence, r.FenceAbove, r.Shared && rec.mode == modeShared, wall)
	if err != nil {
		return nil, err
	}
	h := f.newHold()
	h.token, h.conn, h.fence, h.shared, h.holder, h.since = r.Token.Text(), c, fence, r.Shared, r.Holder, wall.UnixMicro()
	if r.Shared {
		b.next.setShared(f, h.fence, rec, wall)
	} else {
		b.next.setExclusive(f, h)
	}
	if err := b.write(c); err != nil && stored {
		return nil, unavailable(f.path, err)
	}
	if r.Shared {
		h.recordReader(b.next.epoch, wall)
	}
	return h, nil
}
