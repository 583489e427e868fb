package advisory

import (
	"cmp"
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Release implements driver.Store.
func (s *Store[C]) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	err := cmp.Or(driver.CheckHold(name, token, &s.cfg.Guarantees), driver.CheckKeep("cool-down", keep, &s.cfg.Guarantees))
	if err != nil {
		return driver.OutcomeGone, err
	}
	return storekit.Do(ctx, &s.calls, func() (driver.Outcome, error) {
		h, err := s.holds.enter(ctx, name, token)
		if err != nil {
			return driver.OutcomeGone, err
		}
		defer s.holds.leave(h)
		switch {
		case h.state == none:
			return driver.OutcomeGone, s.reachServer()
		case h.state == unsure:
			return driver.OutcomeGone, s.settle(h)
		case !h.c.alive():
			s.clear(h, false)
			return driver.OutcomeGone, nil
		}
		return s.letGo(h)
	})
}

// reachServer checks whether the server can be reached.
func (s *Store[C]) reachServer() error {
	c, err := s.pool.anyConn()
	if err == nil {
		err = s.dialect.Verify(c, Lock{})
	}
	return storekit.Failure(err)
}
