package quorum

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store. All members are asked at once (under [All]
// one after the other), and the answer is known when a quorum has granted, or
// when so many refuse that none is left. Then what was granted is given back
// before the answer is told, and what is not known to be granted in the
// background. A request that a hold of this process repeats is a renewal.
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
		// Members that lost the hold would grant it afresh, and a quorum of
		// fresh grants is not a repeat: so they are asked to confirm.
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
