package sqlstore

import (
	"cmp"
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

var _ interface {
	driver.Store
	driver.Waiter
	driver.Passer
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.BatchExtender
	driver.Recorder
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Pass implements driver.Passer.
func (s *Store) Pass(ctx context.Context, token string, next driver.Request) (out driver.Outcome, g driver.Grant, queued bool, err error) {
	push := s.waits.pushChannel()
	if push == "" || !s.crowd.isCrowded(next.Name) {
		out, g, err = s.pass(ctx, token, next)
		return out, g, false, err
	}
	if err := cmp.Or(driver.CheckToken(token), next.Validate(&s.promises), checkNext(token, &next)); err != nil {
		return driver.OutcomeGone, g, false, err
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return driver.OutcomeGone, g, false, err
	}
	defer done()
	if s.waits.hasPlace(next.Token) { // a second registration would replace the first one
		return driver.OutcomeReleased, g, true, nil
	}
	p := &takenPlace{push: push, switches: s.waits.countSwitches(), renew: time.Now().Add(placeFor / 2)}
	p.waiting, p.remove = s.waits.add(next.Name, opaque(next.Token))
	mine := newPlace(&next, push, 0)
	h, err := s.handOverInOne(ctx, next.Name, token, &mine)
	if h == nil {
		p.remove()
	}
	switch {
	case err != nil:
		return driver.OutcomeGone, g, false, err
	case h == nil:
		out, g, err = s.passByState(ctx, token, next)
		return out, g, false, err
	}
	p.ahead, p.now = h.ahead, h.to.since
	p.st.State = decide.State{Fence: h.to.fence, Holds: []decide.Hold{{
		Token: string(h.to.to.token), Reserved: true, Fence: h.to.fence, Since: p.now, Until: p.now.Add(driver.MaxReservation),
	}}}
	s.waits.keepPlace(next.Token, p)
	return driver.OutcomeReleased, g, true, nil
}
