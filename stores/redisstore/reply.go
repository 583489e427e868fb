package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

var errShared = fmt.Errorf("layout=string has no shared mode: %w", errors.ErrUnsupported)

// The kinds of replies of the full scripts. The scripts contain the same letters.
const (
	replyGranted  = "G"
	replyHeld     = "H"
	replyLost     = "L"
	replyExpired  = "E"
	replyConflict = "C"
	replyReleased = "R"
	replyTryNow   = "N"
	replyWait     = "W"
	replyState    = "S"
	replyUsedUp   = "U"
)

// answer is the reply of a full script.
type answer struct {
	kind string
	rest []rueidis.RedisMessage
}

// runScript runs a script with all keys of name.
func (s *Store) runScript(ctx context.Context, c *connected, sc *script, name string, args ...string) (answer, error) {
	l := s.keys.lock(name)
	all := append(make([]string, 0, 9), c.setting)
	sent := time.Now()
	a, err := s.readAnswer(ctx, sc.do(ctx, c, l.keys[:], append(all, args...)))
	if err == nil {
		s.trips.note(time.Since(sent))
	}
	return a, err
}

// readAnswer reads the reply of a full script.
func (s *Store) readAnswer(ctx context.Context, resp rueidis.RedisResult) (answer, error) {
	parts, err := resp.ToArray()
	return s.answerOf(ctx, parts, err)
}

// answerOf makes an answer from the parts of a full script's reply. If the reply was an error, err
// has that error.
func (s *Store) answerOf(ctx context.Context, parts []rueidis.RedisMessage, err error) (answer, error) {
	if err != nil {
		return answer{}, s.failure(ctx, err)
	}
	if len(parts) == 0 {
		return answer{}, unreadable()
	}
	kind, err := parts[0].ToString()
	if err != nil {
		return answer{}, unreadable()
	}
	return answer{kind, parts[1:]}, nil
}

// unreadable is the error for a reply that is not in the form of a script's reply.
func unreadable() error {
	return fmt.Errorf("%w: redis: the reply cannot be read", driver.ErrUncertain)
}

func (a *answer) number(i int) int64 {
	if i >= len(a.rest) {
		return 0
	}
	return number(&a.rest[i])
}

func number(m *rueidis.RedisMessage) int64 {
	n, err := m.AsInt64()
	if err != nil {
		return 0
	}
	return n
}

// callerFence returns the fence for the caller. With NoFences it is 0, although the scripts still
// assign fences.
func (s *Store) callerFence(fence int64) uint64 {
	if !s.config.fences {
		return 0
	}
	return uint64(fence)
}

// lease returns the lease of a grant, which the server says lasts for ms. Another program may
// have a greater MaxTTL. But the restart guard waits for the longest lease of this one, so no caller
// may work for longer without extending the hold.
func (s *Store) lease(ms int64) time.Duration {
	return min(time.Duration(ms)*time.Millisecond, s.guarantees.MaxTTL)
}

// grant reads a grant, or returns the reason why there is none.
func (s *Store) grant(a *answer) (driver.Grant, error) {
	switch a.kind {
	case replyGranted:
		return driver.Grant{Fence: s.callerFence(a.number(0)), TTL: s.lease(a.number(1)), Shared: a.number(2) == 1}, nil
	case replyHeld:
		return driver.Grant{}, a.heldError()
	case replyLost:
		return driver.Grant{}, driver.ErrLost
	case replyExpired:
		return driver.Grant{}, driver.ErrExpired
	case replyConflict:
		return driver.Grant{}, driver.ErrPromotionConflict
	case replyUsedUp:
		return driver.Grant{}, driver.ErrFencesUsedUp
	}
	return driver.Grant{}, unreadable()
}

// gapError is the error of a try for a name that nobody holds. With the option Foreign, padlock
// leaves a name free for a short time, so that other programs can get it.
type gapError struct {
	*driver.HeldError
	left time.Duration // the rest of that time
}

func (e *gapError) Unwrap() error { return e.HeldError }

// heldError reads a reply of the kind replyHeld. The reply has the server's time, the number of
// waiters, the holds, and a number of milliseconds. Usually this number is 0. If nobody holds the
// name or waits for it, padlock leaves the name free for other programs (see gapError). Then the
// number is the rest of that time.
func (a *answer) heldError() error {
	if len(a.rest) < 3 {
		return unreadable()
	}
	holds, ok := readHolds(&a.rest[2], a.number(0))
	if !ok {
		return unreadable()
	}
	err := &driver.HeldError{Waiters: int(a.number(1)), Holds: holds}
	err.Until = latest(err.Holds)
	if left := a.number(3); left > 0 {
		return &gapError{err, time.Duration(left) * time.Millisecond}
	}
	return err
}

func latest(holds []driver.Hold) (until time.Time) {
	for i := range holds {
		if u := holds[i].Until; u.After(until) {
			until = u
		}
	}
	return until
}

// endless stands for "no end". It is later than the end of any lease. The scripts report an even
// later end for a key without an expiry.
const endless = int64(8e15)

// readHolds reads the list of holds in a reply. Each hold has a kind, an end, a mode, a beginning
// and a holder. Times are in ms by the server's clock. The argument serverNow is the present time
// of that clock. ok is false if the list cannot be read, so that nobody takes it for an empty one.
func readHolds(m *rueidis.RedisMessage, serverNow int64) (holds []driver.Hold, ok bool) {
	entries, err := m.ToArray()
	if err != nil {
		return nil, false
	}
	wall := time.Now()
	at := func(ms int64) time.Time { return wall.Add(time.Duration(ms-serverNow) * time.Millisecond) }
	holds = make([]driver.Hold, 0, len(entries))
	for i := range entries {
		e, err := entries[i].AsStrSlice()
		if err != nil || len(e) < 5 {
			return nil, false
		}
		h := driver.Hold{Foreign: e[0] == "f", Cooling: e[0] == "c", Shared: e[2] == "s" && e[0] != "c"}
		if end := atoi(e[1]); end < endless {
			h.Until = at(end)
		}
		if since := atoi(e[3]); since > 0 {
			h.Since = at(since)
		}
		h.Holder = readHolder(e[4])
		finishHold(&h)
		holds = append(holds, h)
	}
	return holds, true
}

// readNote reads the last exclusive hold from a note. It returns the holder, the beginning of the
// hold in ms since 1970, and whether the name may have waiters. The last result is false if the
// note has no hold or has another version.
func readNote(note string) (h driver.Holder, since int64, mayWait, ok bool) {
	if len(note) < tokenAt || note[0] > lastFlag {
		return h, 0, false, false
	}
	n, err := strconv.Atoi(note[lengthAt:tokenAt])
	state := tokenAt + n
	holder := state + stateBytes
	if err != nil || n < 0 || len(note) < holder {
		return h, 0, false, false
	}
	since = atoi(note[fenceAt : fenceAt+timeBytes]) // a fence begins with the time in ms
	if note[state:holder] != stateHeldNow {
		if holder += 2 * timeBytes; len(note) < holder {
			return h, 0, false, false
		}
		since = atoi(note[holder-timeBytes : holder])
	}
	return readHolder(note[holder:]), since, note[0] != flagSimple, true
}

// readHolder reads the JSON text of a holder. Any other text is read as an unknown holder.
func readHolder(text string) (h driver.Holder) {
	if text == "" || json.Unmarshal([]byte(text), &h) != nil {
		return driver.Holder{}
	}
	return h
}

func finishHold(h *driver.Hold) {
	if h.Plan > 0 && !h.Since.IsZero() {
		h.PlannedEnd = h.Since.Add(h.Plan)
	}
	if h.Cooling {
		h.PlannedEnd = h.Until
	}
}

func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
