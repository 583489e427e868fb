package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/redis/rueidis"
)

// The fast scripts are for exclusive holds. If nobody waits for the name, they write only two keys:
// the key of the lock, and the note of the name, which note.go describes. The script that ends a
// hold also hands the name over to a waiter. The full scripts do everything else.

// fast reports whether a fast script may serve r.
func (s *Store) fast(r *driver.Request) bool {
	return !r.Shared && r.Replaces.Text() == "" && r.FenceAbove == 0 && !s.config.foreign
}

// fastAcquire tries a fast script, which takes a free name or claims a reservation. The last result
// is false if a full script is needed.
func (s *Store) fastAcquire(ctx context.Context, c *connected, r *driver.Request) (g driver.Grant, err error, done bool) {
	l := s.keys.lock(r.Name)
	keys := [...]string{l.keys[0], l.keys[1], l.keys[3]} // the name, the note and the queue
	sent := time.Now()
	m, err := s.scripts.fastAcquire.do(ctx, c, keys[:],
		[]string{counted(r.Token.Text()), millis(r.TTL), millis(r.TTL + s.keep), holderText(&r.Holder)}).ToMessage()
	if err != nil {
		return s.fastFailed(ctx, err)
	}
	s.trips.note(time.Since(sent))
	if m.IsArray() {
		err := s.fastHeld(&m)
		return driver.Grant{}, err, err != nil
	}
	f, err := m.ToInt64()
	if err != nil || f == 0 {
		return driver.Grant{}, nil, false
	}
	return driver.Grant{Fence: s.callerFence(f), TTL: r.TTL}, nil, true
}

// fastFailed handles the error of a fast acquire. A server without memory refuses the first command
// of the fast script, even if the name is held; the full script can find the holder.
func (s *Store) fastFailed(ctx context.Context, err error) (driver.Grant, error, bool) {
	if reply, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(scriptError(reply.Error()), "OOM ") {
		return driver.Grant{}, nil, false
	}
	return driver.Grant{}, s.failure(ctx, err), true
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

// The replies of the scripts that end a hold: fast_release_*.lua and swap.lua. A greater number is
// the fence of a waiter or a caller of this process, which has the name now. After 2, a waiter of
// another process has it.
const (
	endedHold = 1 // nobody waits for the name
	firstGone = 3 // the process of the first waiter is gone
)

// fastRelease ends a hold, and hands the name over if it has waiters. It reports whether the hold
// was ended. If it was not, a full script is needed.
func (s *Store) fastRelease(ctx context.Context, c *connected, name, token string) (bool, error) {
	l := s.keys.lock(name)
	args := append(append(make([]string, 0, 8), counted(token)), c.endings...)
	own := s.subscriber.firstWaiter(name)
	if own != nil && own.r.TTL > driver.MaxReservation {
		args = s.successor(args, own.r)
	}
	sent := s.clock.Now()
	n, err := s.scripts.fastRelease.do(ctx, c, l.keys[:4], args).ToInt64()
	switch {
	case own == nil:
	case err == nil && n > firstGone && s.checks.valid.Load():
		own.grant(n, sent)
	case err != nil || n > firstGone:
		own.call(message{kind: msgLook}) // makes the waiter ask the server, because the lock may have gone to it
	}
	if err != nil {
		return false, s.failure(ctx, err)
	}
	if n == firstGone {
		s.handOver(ctx, c, name)
	}
	return n > 0, nil
}

// successor adds the arguments for a waiter or a caller of this process, which wants the name.
func (s *Store) successor(args []string, r *driver.Request) []string {
	return append(args, counted(r.Token.Text()), millis(r.TTL), millis(r.TTL+s.keep), holderText(&r.Holder))
}

// handOver hands a free name over to its waiters, after a script has ended the hold and has found
// that the process of the first waiter is gone. If the server does not answer, handOver asks again
// in the background. Without that, the other waiters would find the free name only at their next
// look, up to 15 s later.
func (s *Store) handOver(ctx context.Context, c *connected, name string) {
	if _, err := s.runScript(ctx, c, s.scripts.release, name, "", "0"); err == nil {
		return
	}
	s.calls.Go(func() {
		for pause := 100 * time.Millisecond; pause < 10*time.Second; pause *= 2 {
			if !storekit.Sleep(s.calls.Closing, spread(pause)) {
				return
			}
			ctx, cancel := context.WithTimeout(s.calls.Closing, callTimeout)
			c, err := s.ready(ctx, false)
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
