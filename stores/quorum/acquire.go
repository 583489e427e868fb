package quorum

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store. It asks all members at once. Under [All], it asks them one after
// the other. It stops as soon as a quorum has granted the lock, or no quorum is possible any more.
// If Acquire fails, it first releases the hold at the members that granted it. At members whose
// answer is unknown, it releases the hold in the background.
//
// If this process has the hold already, a repeated request renews it.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.valid(&r); err != nil {
		return driver.Grant{}, err
	}
	h, err := s.beginCall(ctx, r.Name, r.Token.Text(), 4)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.finishCall(h)
	if s.isLive(h) {
		// This caller has the lock already, so the members are asked only to confirm it. An Acquire
		// would also succeed at a member that has lost the hold, even if another caller has had the
		// lock since then.
		g, err := s.confirm(ctx, h, r.TTL)
		if judge(err) != gone {
			return g, err
		}
	}
	t := s.newTry(h, r)
	return t.run(ctx)
}
