package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// mostShared is the greatest number of shared holds that one script takes. There is a limit because
// the server does nothing else while a script runs.
const mostShared = 128

var acquireShared = sync.OnceValue(func() *script { return newScript("prelude", "set", "publish", "queue", "acquire_shared") })

var _ driver.SharedTaker = (*Store)(nil)

// AcquireShared implements driver.SharedTaker with one request, which takes up to 128 holds. If the
// store has the option Replicas or PlainStrings, it returns errors.ErrUnsupported.
func (s *Store) AcquireShared(ctx context.Context, rs []driver.Request) ([]driver.Grant, error) {
	if err := driver.ValidateShared(rs, &s.guarantees); err != nil {
		return nil, err
	}
	if s.config.replicas > 0 || s.config.strings {
		return nil, errors.ErrUnsupported
	}
	if err := s.enter(ctx); err != nil || len(rs) == 0 {
		return nil, err
	}
	c, err := s.readyClient(ctx, true)
	if err != nil {
		return nil, err
	}
	rs = rs[:min(len(rs), mostShared)]
	args := append(make([]string, 0, 2+len(rs)), s.formats.ttl(rs[0].TTL).lease, s.formats.holder(&rs[0].Holder).text)
	for i := range rs {
		args = append(args, rs[i].Token)
	}
	a, err := s.runScript(ctx, c, acquireShared(), rs[0].Name, args...)
	if err != nil {
		return nil, err
	}
	if a.kind != replyGranted || len(a.rest) > 2*len(rs) {
		return nil, unreadable()
	}
	grants := make([]driver.Grant, len(a.rest)/2)
	for i := range grants {
		grants[i] = driver.Grant{Fence: s.callerFence(a.number(2 * i)), TTL: time.Duration(a.number(2*i+1)) * time.Millisecond}
	}
	if _, err := s.confirmed(ctx, &rs[0], driver.Grant{}, nil); err != nil {
		return nil, err
	}
	return grants, nil
}
