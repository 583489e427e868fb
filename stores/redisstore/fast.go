package redisstore

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// The fast scripts are for exclusive holds of names that nobody waits for. They are small, because
// they use only two keys: the key of the lock, and the note of the name, which note.go describes.
// The full scripts do everything else.

// fast reports whether a fast script may serve r.
func (s *Store) fast(r *driver.Request) bool {
	return !r.Shared && r.AtLeast == 0 && r.Replaces == "" && r.FenceAbove == 0 && !s.config.foreign && s.config.replicas == 0
}

// fastAcquire tries a fast script. The last result is false if a full script is needed.
func (s *Store) fastAcquire(ctx context.Context, c *connected, r *driver.Request) (g driver.Grant, err error, done bool) {
	key, note := s.keys.pair(r.Name)
	ttl := s.formats.ttl(r.TTL)
	if s.handed.has(r.Token) {
		resp := s.scripts.fastClaim.call(ctx, c, key, note, counted(r.Token), ttl.lease, ttl.note, s.formats.holder(&r.Holder).text)
		return s.fastGrant(ctx, r, resp)
	}
	if s.config.strings && !s.config.fences {
		return s.plainAcquire(ctx, c, r)
	}
	resp := s.scripts.fastAcquire.call(ctx, c, key, note, counted(r.Token), ttl.lease, ttl.note, s.formats.holder(&r.Holder).note)
	return s.fastGrant(ctx, r, resp)
}

// fastGrant reads the reply of a fast script: the fence of a grant, the hold that is in the way, or
// 0 if a full script is needed.
func (s *Store) fastGrant(ctx context.Context, r *driver.Request, resp rueidis.RedisResult) (driver.Grant, error, bool) {
	m, err := resp.ToMessage()
	if err != nil {
		return s.fastFailed(ctx, err)
	}
	if m.IsArray() {
		err := s.fastHeld(&m)
		return driver.Grant{}, err, err != nil
	}
	f, err := m.ToInt64()
	if err != nil || f == 0 {
		return driver.Grant{}, nil, false
	}
	return driver.Grant{Fence: s.callerFence(f), TTL: ceilMillis(r.TTL)}, nil, true
}

// plainAcquire takes a SET NX PX lock, which needs no script.
func (s *Store) plainAcquire(ctx context.Context, c *connected, r *driver.Request) (driver.Grant, error, bool) {
	key := s.keys.key(r.Name)
	resp := c.Do(ctx, c.B().Arbitrary("SET").Keys(key).Args(r.Token, "NX", "PX", s.formats.ttl(r.TTL).lease).Build())
	err := resp.Error()
	switch {
	case err == nil:
		return driver.Grant{TTL: ceilMillis(r.TTL)}, nil, true
	case rueidis.IsRedisNil(err):
		return driver.Grant{}, nil, false
	}
	return s.fastFailed(ctx, err)
}

// fastFailed handles the error of a fast acquire. A server without memory refuses the first command
// of the fast script, even if the name is held; the full script can find the holder.
func (s *Store) fastFailed(ctx context.Context, err error) (driver.Grant, error, bool) {
	if reply, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(scriptError(reply.Error()), "OOM ") {
		return driver.Grant{}, nil, false
	}
	return driver.Grant{}, s.failure(ctx, err), true
}

func ceilMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// fastHeld reads the note of the hold that is in the way, the end of its lease and the server's
// time. It returns nil if the note cannot be read.
func (s *Store) fastHeld(m *rueidis.RedisMessage) error {
	parts, err := m.AsStrSlice()
	if err != nil || len(parts) < 3 {
		return nil
	}
	holder, since, mayWait, ok := readNote(parts[0])
	if !ok {
		return nil
	}
	end, now, wall := atoi(parts[1]), atoi(parts[2]), time.Now()
	h := driver.Hold{Holder: holder, Until: wall.Add(time.Duration(end-now) * time.Millisecond)}
	h.Since = wall.Add(time.Duration(since-now) * time.Millisecond)
	finishHold(&h)
	held := &driver.HeldError{Holds: []driver.Hold{h}, Until: h.Until, Waiters: -1}
	if !mayWait {
		held.Waiters = 0
	}
	return held
}

// fastExtend tries a fast script. The last result is false if a full script is needed.
func (s *Store) fastExtend(ctx context.Context, c *connected, name, token string, ttl time.Duration) (driver.Grant, error, bool) {
	key, note := s.keys.pair(name)
	resp := s.scripts.fastExtend.call(ctx, c, key, note, s.fastToken(token), s.formats.ttl(ttl).lease, s.keepArg)
	m, err := resp.ToMessage()
	if err != nil {
		return driver.Grant{}, s.failure(ctx, err), true
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) < 2 {
		return driver.Grant{}, nil, false
	}
	g := driver.Grant{Fence: s.callerFence(number(&parts[0])), TTL: s.lease(number(&parts[1]))}
	g.Shared = len(parts) > 2 && number(&parts[2]) == 1
	return g, nil, true
}

// fastToken returns token in the form that the fast scripts of this layout expect.
func (s *Store) fastToken(token string) string {
	if s.config.strings {
		return token
	}
	return counted(token)
}

// fastRelease ends a hold, and hands the name over if it has waiters. It reports whether the hold
// was ended.
func (s *Store) fastRelease(ctx context.Context, c *connected, name, token string) (bool, error) {
	done, waiters, err := s.releaseAlone(ctx, c, name, token)
	if waiters {
		return s.passHold(ctx, c, name, token)
	}
	return done, err
}

// releaseAlone ends a hold if nobody waits for the name. The result done reports whether the hold
// was ended. If it was not, the result waiters reports whether the name may have waiters.
func (s *Store) releaseAlone(ctx context.Context, c *connected, name, token string) (done, waiters bool, err error) {
	key, note := s.keys.pair(name)
	var resp rueidis.RedisResult
	if s.config.alone {
		resp = s.scripts.fastRelease.call(ctx, c, key, note, s.fastToken(token), "1")
	} else {
		resp = s.scripts.fastRelease.call(ctx, c, key, note, s.fastToken(token))
	}
	n, err := resp.ToInt64()
	if err != nil {
		return false, false, s.failure(ctx, err)
	}
	return n == 1, n == 2, nil
}

// passHold ends a hold of a name that has waiters, and hands the name over. It reports whether the
// hold was ended.
func (s *Store) passHold(ctx context.Context, c *connected, name, token string) (bool, error) {
	keys := s.keys.lock(name).allKeys()
	args := append(make([]string, 0, 7), counted(token), s.formats.ttl(driver.MaxReservation).note, c.counts)
	own := s.subscriber.firstWaiter(name)
	if own != nil && own.r.TTL > driver.MaxReservation {
		ttl := s.formats.ttl(own.r.TTL)
		args = append(args, counted(own.r.Token), ttl.lease, ttl.note, s.formats.holder(&own.r.Holder).note)
	}
	sent := s.clock.Now()
	n, err := s.scripts.pass.do(ctx, c, keys[:4], args).ToInt64()
	switch {
	case own == nil:
	case err == nil && n > 2 && s.checks.valid.Load():
		own.grant(n, sent)
	case err != nil || n > 2:
		own.call(message{kind: msgLook}) // makes the waiter ask the server, because the lock may have gone to it
	}
	if err != nil {
		return false, s.failure(ctx, err)
	}
	if n == 1 {
		s.handOvers.add(name, sent)
	}
	if n == 2 {
		s.handOver(ctx, c, name)
	}
	return n > 0, nil
}

// handOver hands a free name over to its waiters, after a script has ended the hold and has found
// that the process of the first waiter is gone. If the server does not answer, handOver asks again
// in the background. Without that, the other waiters would find the free name only at their next
// look, up to 15 s later.
func (s *Store) handOver(ctx context.Context, c *connected, name string) {
	if _, err := s.runScript(ctx, c, s.scripts.release, name, "", "0"); err == nil {
		return
	}
	s.background(func() {
		for pause := 100 * time.Millisecond; pause < 10*time.Second; pause *= 2 {
			if s.sleep(s.ctx, spread(pause)) != nil {
				return
			}
			ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
			c, err := s.readyClient(ctx, false)
			if err == nil {
				_, err = s.runScript(ctx, c, s.scripts.release, name, "", "0")
			}
			cancel()
			if err == nil {
				return
			}
		}
	})
}

// handed stores what the store must know to release some holds. The keys of the map are tokens.
// The names of such holds usually have more waiters. The fast script cannot release a name with
// waiters, so the release does not try it; see quickRelease.
type handed struct {
	n  atomic.Int64
	mu sync.Mutex
	m  map[string]bool
}

const maxHanded = 1 << 14 // limits the set, because some holds are never released

func (h *handed) add(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.m) >= maxHanded {
		clear(h.m)
	}
	h.m[token] = true
	h.n.Store(int64(len(h.m)))
}

func (h *handed) has(token string) bool {
	if h.n.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m[token]
}

// take removes a token, and reports whether it was there.
func (h *handed) take(token string) bool {
	if h.n.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	there := h.m[token]
	delete(h.m, token)
	h.n.Store(int64(len(h.m)))
	return there
}
