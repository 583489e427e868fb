package filestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store. It makes one try. A shared request may wait up to 2 seconds
// (normally some microseconds) for other readers that are changing the record. Acquire returns
// driver.ErrUnavailable, with advice, if the lock file cannot be used.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, err := s.begin(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.leave(f)
	if r.Detached {
		return s.acquireLease(f, &r)
	}
	h, err := s.acquire(ctx, f, &r)
	if err != nil {
		return driver.Grant{}, err
	}
	return driver.Grant{Fence: h.fence}, nil
}

func (s *Store) check(r *driver.Request) error {
	if err := r.Validate(&s.guarantees); err != nil {
		return err
	}
	if r.Detached && r.Shared {
		return fmt.Errorf("a shared lease in a file: %w", errors.ErrUnsupported)
	}
	if r.Replaces != "" && !r.Detached {
		return fmt.Errorf("hand-over: a hold on a file belongs to its process: %w", errors.ErrUnsupported)
	}
	return nil
}

func (s *Store) acquire(ctx context.Context, f *file, r *driver.Request) (*hold, error) {
	if h := f.find(r.Token); h != nil {
		live, err := s.verify(f, h)
		if err != nil {
			return nil, err
		}
		if live {
			return h, s.repeat(ctx, f, h, r)
		}
	}
	var h *hold
	err := s.insist(f, func() (err error) {
		h, err = s.try(ctx, f, r)
		return err
	})
	return h, err
}

// insist repeats a try that was refused, until it is sure why. It returns a *HeldError instead of a
// refusal.
func (s *Store) insist(f *file, try func() error) error {
	const tries = 3 // needed because a waiter that looks at the lock holds it for an instant
	for i := 1; ; i++ {
		err := try()
		no, refused := err.(*refusal)
		if !refused {
			return err
		}
		if err, sure := s.heldError(f, no); sure || i == tries {
			return err
		}
		if no.queued {
			if err := s.rest(f); err != nil {
				return err
			}
		}
	}
}

// rest waits a moment, so that a waiter that was woken can take the lock and the refusal can name
// it as the holder.
func (s *Store) rest(f *file) error {
	f.mu.Unlock() // the waiter may belong to this store
	time.Sleep(recordPause)
	f.mu.Lock()
	select {
	case <-s.done:
		return driver.ErrClosed
	default:
		return nil
	}
}

// repeat grants a request whose token has a live hold already. It claims a reservation and renews
// AtLeast.
func (s *Store) repeat(ctx context.Context, f *file, h *hold, r *driver.Request) error {
	if h.reserved != nil {
		h.reserved()
		h.reserved = nil
	}
	if r.AtLeast == 0 {
		return nil
	}
	wall := s.config.wall()
	return s.arm(ctx, f, h, later(h.atLeast, in(r.AtLeast, wall), wall))
}

// refusal says why a try failed. The zero refusal means that another process has the lock.
type refusal struct {
	cooling bool
	intent  uint64        // the intent of the reader that is being promoted, or 0
	left    time.Duration // how long the reason lasts, at most; 0 if unknown
	queued  bool          // another waiter is about to get the lock
	again   bool          // another try at once may succeed
}

func (*refusal) Error() string { return "refused" }

// try makes one attempt to take the lock.
func (s *Store) try(ctx context.Context, f *file, r *driver.Request) (h *hold, err error) {
	if r.Shared {
		gate, err := s.enterGate(ctx, f)
		if err != nil {
			return nil, err
		}
		defer gate.close()
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	var c *conn
	for again := true; again; {
		c, err = s.lock(f, r.Shared, func(c *conn) error {
			h, err = s.grant(f, c, r, b)
			return err
		})
		no, refused := err.(*refusal)
		again = refused && no.again
	}
	if err != nil {
		return nil, err
	}
	if c.size < int64(b.wrote) {
		_ = c.pwrite(b.out[:b.wrote], 0) // another program cut the file short while its mapped page was written
	}
	f.holds = append(f.holds, h)
	return h, nil
}

// admit returns nil if the record lets in a caller that has the kernel's lock, or else the reason
// why not.
func admit(rec *record, shared bool, wall time.Time) *refusal {
	if !rec.valid {
		return nil
	}
	if left := rec.intentEnd.left(wall); rec.intent != 0 && left > 0 {
		return &refusal{intent: rec.intent, left: left}
	}
	left := rec.cool.left(wall)
	if !shared {
		left = max(left, rec.readCool.left(wall))
	}
	if left > 0 {
		return &refusal{cooling: true, left: left}
	}
	return nil
}

// grant makes a hold from the kernel's lock that c has, if the record allows it.
func (s *Store) grant(f *file, c *conn, r *driver.Request, b *buffer) (*hold, error) {
	rec := b.read(c)
	wall := s.config.wall()
	if rec.newer || s.hasNewerQueue(c, b.in[:b.got]) {
		return nil, newer(f.path)
	}
	if no := admit(rec, r.Shared, wall); no != nil {
		return nil, no
	}
	if no := s.yield(f, c, r.Shared, b.in[:b.got]); no != nil {
		return nil, no
	}
	fence, stored, err := mint(rec.fence, r.FenceAbove, r.Shared && rec.mode == modeShared, wall)
	if err != nil {
		return nil, err
	}
	h := f.newHold()
	h.token, h.conn, h.fence, h.shared, h.holder, h.since = r.Token, c, fence, r.Shared, r.Holder, wall.UnixMicro()
	if r.AtLeast > 0 {
		h.atLeast = in(r.AtLeast, wall)
	}
	if r.Shared {
		b.next.share(f, h, rec, wall)
	} else {
		b.next.own(f, h)
	}
	if err := b.write(c); err != nil && (stored || r.AtLeast > 0) {
		return nil, unavailable(f.path, err)
	}
	if r.Shared {
		h.writeSlot(b.next.epoch)
	}
	return h, nil
}

// mint returns the fence of a new grant.
//
// follows means that a reader joins other readers. It shares their fence, so that a guard refuses
// none of them. The first reader after a writer needs a greater fence than that writer, because the
// writer may not have noticed yet that it lost the lock.
//
// stored means that the fence must be written into the file. A fence that equals the clock's time
// need not be written, because the next fence is greater anyway.
func mint(last, above uint64, follows bool, wall time.Time) (fence uint64, stored bool, err error) {
	if follows && last > above && last > 0 {
		return last, false, nil
	}
	floor := last + 1
	if above > 0 {
		floor = max(floor, above+1)
	}
	clock := uint64(max(wall.UnixMicro(), 0))
	fence = max(floor, clock)
	if fence >= driver.MaxFence {
		return 0, false, fmt.Errorf("%w, or remove its lock file when nobody holds it", driver.ErrFencesUsedUp)
	}
	return fence, fence > clock, nil
}
