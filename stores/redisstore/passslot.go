package redisstore

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// releasePermit tries to end the hold of a permit without the full script. It reports whether the
// hold was ended.
func (s *Store) releasePermit(ctx context.Context, c *connected, name, token string, how handedOver) (bool, error) {
	if !how.passed {
		if done, waiters, err := s.releaseAlone(ctx, c, name, token); !waiters {
			return done, err
		}
	}
	if done, err := s.passPermit(ctx, c, name, token, how.permits); done || err != nil || !how.passed {
		return done, err
	}
	done, _, err := s.releaseAlone(ctx, c, name, token)
	return done, err
}

// passPermit ends the hold of a permit, and gives the permit to the first waiter at the gate. The
// argument permits is how many slots the name has. passPermit reports whether the hold was ended.
func (s *Store) passPermit(ctx context.Context, c *connected, name, token string, permits int) (bool, error) {
	base, slot, ok := driver.SplitSlot(name)
	if !ok || slot < 0 || slot >= permits || permits > mostWatched {
		return false, nil
	}
	gate := driver.SlotGate(base, permits)
	own, at := s.keys.lock(name).allKeys(), s.keys.lock(gate).allKeys()
	keys := append(append(make([]string, 0, 8+permits), own[:4]...), at[:4]...)
	for i := range permits {
		keys = append(keys, s.keys.lock(driver.SlotName(base, i)).allKeys()[4])
	}
	n, err := bothSlotScripts[s.config.strings]().pass.do(ctx, c, keys,
		[]string{counted(token), s.formats.ttl(driver.MaxReservation).note, c.counts, itoa(int64(slot))}).ToInt64()
	if err != nil {
		return false, s.failure(ctx, err)
	}
	if n == 2 {
		s.handOver(ctx, c, name)
	}
	if n > 1 {
		s.handOver(ctx, c, gate)
	}
	return n > 0, nil
}
