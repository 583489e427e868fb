package quorum

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store. It asks all members at once (under [All] one after the other)
// and decides when a quorum has granted, or when so many refuse that none is left. If it fails,
// members that granted have released before Acquire returns; members whose answer is unknown are
// released in the background. If a hold of this process repeats its request, that is a renewal.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.valid(&r); err != nil {
		return driver.Grant{}, err
	}
	h, err := s.begin(ctx, r.Name, r.Token)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.finish(h)
	if s.isLive(h) {
		// Members that lost the hold would grant it anew, and a quorum of new grants is no
		// repetition of the old one. So the members are asked to confirm the hold.
		g, err := s.confirm(ctx, h, r.TTL)
		if err == nil && r.AtLeast > 0 {
			g, err = s.arm(ctx, h, r)
		}
		if judge(err) != gone {
			return g, err
		}
	}
	t := s.newTry(h, r)
	return t.run(ctx)
}
