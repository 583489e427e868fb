package drivertest

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

const (
	sharedGoesOn       bug = "AcquireShared grants readers next to a writer"
	sharedFencesDiffer bug = "AcquireShared gives each reader a fence of its own"
	sharedTakesOne     bug = "AcquireShared grants one hold and returns it for all"
	togetherUnchecked  bug = "AcquireShared does not check its requests"
)

var togetherBugs = []bug{sharedGoesOn, sharedFencesDiffer, sharedTakesOne, togetherUnchecked}

// AcquireShared implements driver.SharedTaker.
func (s relay) AcquireShared(ctx context.Context, rs []driver.Request) (grants []driver.Grant, err error) {
	if err := driver.ValidateShared(rs, &s.w.g); err != nil && !s.is(togetherUnchecked) {
		return nil, err
	}
	for _, r := range rs {
		g, err := s.Acquire(ctx, r)
		switch {
		case s.is(sharedTakesOne) && len(grants) > 0:
			g, err = grants[0], s.endOf(r.Name, r.Token)
		case s.is(sharedGoesOn) && errors.Is(err, driver.ErrHeld):
			g, err = driver.Grant{Fence: 1, TTL: r.TTL}, nil
		case s.is(sharedFencesDiffer):
			g.Fence += uint64(len(grants))
		}
		if errors.Is(err, driver.ErrHeld) {
			break
		}
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

func (s relay) endOf(name, token string) error {
	_, err := s.Release(context.Background(), name, token, 0)
	return err
}
