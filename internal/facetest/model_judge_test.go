package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// judge knows what each token has, as its callers were told, and checks these rules:
//
//   - While an exclusive hold lasts, nobody else gets the name, and while a shared one lasts, nobody
//     gets it for himself. A repeat, a renewal or a late request never ends a hold.
//   - A repeat returns the fence and the mode of the hold. So a token that has a shared hold is
//     granted no exclusive one: the grant says that it is shared, or the error is ErrInvalid.
//   - A live hold is not refused, lost or expired.
//   - Fences rise.
//   - In a cool-down, nobody gets the name for himself.
//   - When all tokens are given up, the name is free.
//
// A token that is given up, or whose mode is being changed, has nothing for certain, and answers to
// requests that were sent before do not count. Break ends every hold with a fence up to the one
// that it names, even if it arrives late.
type judge struct {
	t           *testing.T
	what        string
	isComposite bool

	mu      sync.Mutex
	counts  map[string]int
	tokens  map[string]*tokenState
	made    int
	job     string    // the token that the callers of both processes use
	highest uint64    // fence
	writer  uint64    // the highest fence of an exclusive hold
	broken  uint64    // holds with this fence, or a lower one, may end at any time
	end     time.Time // of the leases of the dead
	cooling coolDown  // the last one
	past    []string
}

// tokenState is what a token has.
type tokenState struct {
	epoch, busy int       // changes of the mode and ends, and those under way
	since       time.Time // when a caller knew it
	until       time.Time
	shared      bool // false only if a caller was told that the hold is exclusive
	told        bool // the store said that it is shared
	fence       uint64
	spent       bool // it was given up
}

// coolDown is a cool-down that a Release has begun.
type coolDown struct {
	since, until time.Time
	fence        uint64 // of the hold before it
}

// ticket is a request on its way.
type ticket struct {
	token string
	epoch int
	sent  time.Time
}

// blame notes a violation. The caller holds mu, or is alone.
func (j *judge) blame(format string, args ...any) {
	j.counts["violations"]++
	if !j.t.Failed() {
		safety.Broken(j.t, "%s: %s\n\t%s", j.what, fmt.Sprintf(format, args...), strings.Join(j.past[max(0, len(j.past)-100):], "\n\t"))
	}
}

func (j *judge) log(who int, what string, r *driver.Request, g driver.Grant, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts["calls"]++
	j.past = append(j.past, fmt.Sprintf("%s caller %d: %s %s %v shared: %v: fence %d from %d for %v shared: %v, %v",
		time.Now().Format("05.000"), who, what, r.Token.Text(), r.TTL, r.Shared, g.Fence, g.From, g.TTL, g.Shared, err))
}

func (j *judge) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[what]++
}

func (j *judge) newToken() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.made++
	return fmt.Sprint("token-", j.made)
}

func (j *judge) jobToken() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job
}

func (j *judge) isJob(token string) bool { return strings.HasPrefix(token, "job-") }

func (j *judge) token(token string) *tokenState {
	if j.tokens[token] == nil {
		j.tokens[token] = &tokenState{}
	}
	return j.tokens[token]
}

func (s *tokenState) live() bool { return time.Now().Before(s.until) }

func (j *judge) isHeld(token string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.token(token).live()
}

func (j *judge) send(token string) ticket {
	j.mu.Lock()
	defer j.mu.Unlock()
	return ticket{token, j.token(token).epoch, time.Now()}
}

// state returns what the token of an answer has, or nil if the answer does not count.
func (j *judge) state(tk ticket) *tokenState {
	if s := j.token(tk.token); s.epoch == tk.epoch && s.busy == 0 && !s.spent {
		return s
	}
	return nil
}

// isBroken reports whether a hold with this fence was broken. The caller holds mu.
func (j *judge) isBroken(fence uint64) bool { return fence <= j.broken }

// granted checks a grant. It returns false if the token may have nothing.
func (j *judge) granted(tk ticket, r *driver.Request, g driver.Grant) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, until := j.state(tk), endOf(tk, g)
	if s == nil || j.isBroken(g.Fence) || !time.Now().Before(until) {
		return false
	}
	if j.isComposite && !s.live() && s.fence > 0 {
		return false // package padlock never asks a composite store again for a lock that has ended
	}
	j.counts["grants"]++
	switch was := *s; {
	case !was.live() && (g.Fence == 0 || g.Fence != was.fence): // else a renewal with a lost answer has kept the hold
		if c := j.cooling; !r.Shared && !g.Shared && tk.sent.After(c.since) && time.Now().Before(c.until) && !j.isBroken(c.fence) {
			j.blame("%v", safety.ErrTooEarly("%s is granted the name, which cools down for another %v", tk.token, time.Until(c.until)))
		}
		s.shared, s.told, s.fence, s.since, s.until = r.Shared || g.Shared, false, g.Fence, time.Now(), until
		j.begins(tk.token, s)
	case g.Fence != was.fence:
		j.blame("%s had fence %d, and a repeat has %d", tk.token, was.fence, g.Fence)
	case !r.Shared && !g.Shared: // so a caller that asked for a shared hold has an exclusive one
		if was.told {
			j.blame("%s is granted an exclusive hold, and has a shared one", tk.token)
		}
		s.shared, j.writer = false, max(j.writer, s.fence)
	}
	s.told = s.shared && (s.told || g.Shared)
	if until.After(s.until) {
		s.until = until
	}
	j.alone(tk.token, s)
	return true
}

// endOf returns when the lease of a grant ends.
func endOf(tk ticket, g driver.Grant) time.Time {
	if g.From != 0 {
		return time.Now().Add(g.From.Sub(driver.SystemClock().Now()) + g.TTL)
	}
	return tk.sent.Add(g.TTL)
}

// begins checks the fence of a hold that begins or becomes exclusive.
func (j *judge) begins(token string, s *tokenState) {
	err := safety.FenceRises(s.fence, j.highest)
	if s.shared {
		err = safety.FenceKeeps(s.fence, j.writer)
	}
	if err != nil {
		j.blame("%s (shared: %v): %v", token, s.shared, err)
	}
	if j.highest = max(j.highest, s.fence); !s.shared {
		j.writer = max(j.writer, s.fence)
	}
}

// alone checks that no other token has a hold that excludes s.
func (j *judge) alone(token string, s *tokenState) {
	for other, o := range j.tokens {
		if other != token && o.live() && s.live() && !(o.shared && s.shared) {
			j.blame("%v", safety.ErrTwoHold("%s with fence %d (shared: %v), for another %v, and %s with fence %d (shared: %v)",
				other, o.fence, o.shared, time.Until(o.until), token, s.fence, s.shared))
		}
	}
}

// denied checks a refusal, or that a hold has ended.
func (j *judge) denied(tk ticket, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.state(tk); s != nil && s.live() && s.since.Before(tk.sent) {
		j.blame("%s has the name for another %v, and the answer is: %v", tk.token, time.Until(s.until), err)
	}
}

func (j *judge) extended(tk ticket, g driver.Grant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, until := j.state(tk), endOf(tk, g)
	if s == nil || !s.live() {
		return
	}
	if until.After(s.until) {
		s.until = until
	}
	if g.Shared && !s.shared {
		j.blame("%s has an exclusive hold, and Extend says that it is shared", tk.token)
	}
	j.alone(tk.token, s)
}

// convert notes that the mode of a token is about to change.
func (j *judge) convert(r *driver.Request) ticket {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.token(r.Token.Text())
	r.Shared = !s.shared
	s.shared = true // for a demotion: readers may come in from now on
	s.epoch++
	s.busy++
	return ticket{r.Token.Text(), s.epoch, time.Now()}
}

// converted checks the answer. It returns false if the mode is not known. After an uncertain
// demotion, a composite store knows that the hold may be shared, and a caller may go on.
func (j *judge) converted(tk ticket, r *driver.Request, g driver.Grant, err error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.token(tk.token)
	s.busy--
	known := j.state(tk) != nil && s.live()
	s.epoch++
	switch {
	case r.Shared && err == nil:
		if known && g.Fence != s.fence {
			j.blame("a demotion changed fence %d to %d", s.fence, g.Fence)
		}
		j.counts["demotions"]++
		s.told = true
		return true
	case err == nil && known:
		j.counts["promotions"]++
		if s.shared = false; s.told || g.Fence != s.fence { // otherwise the hold was exclusive before, and no caller knew
			s.fence = g.Fence
			j.begins(tk.token, s)
		}
		s.told = false
		j.alone(tk.token, s)
		return true
	case isGone(err) && known:
		j.blame("%s has the name for another %v, and Convert says: %v", tk.token, time.Until(s.until), err)
	}
	if r.Shared {
		return known && j.isComposite && errors.Is(err, driver.ErrUncertain)
	}
	return errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrPromotionConflict)
}

// over notes that a token is about to be released. It returns its fence.
func (j *judge) over(token string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spend(token)
	return j.token(token).fence
}

func (j *judge) spend(token string) {
	s := j.token(token)
	s.spent, s.until = true, time.Time{}
	if token == j.job {
		j.made++
		j.job = fmt.Sprint("job-", j.made)
	}
}

func (j *judge) cools(fence uint64, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts["cool-downs"]++
	j.cooling = coolDown{time.Now(), until, fence}
}

// replace notes that a token is about to get the hold of another one, and returns what that one has.
func (j *judge) replace(r *driver.Request) (ticket, tokenState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	old := *j.token(r.Replaces.Text())
	if old.busy > 0 || old.spent {
		old.until = time.Time{} // what it has is not known
	}
	j.spend(r.Replaces.Text())
	return ticket{r.Token.Text(), j.token(r.Token.Text()).epoch, time.Now()}, old
}

// replaced checks the answer. It returns false if the new token may have nothing.
func (j *judge) replaced(tk ticket, old tokenState, r *driver.Request, g driver.Grant, err error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, until := j.token(tk.token), endOf(tk, g)
	switch {
	case isGone(err) && old.live() && old.since.Before(tk.sent) && !j.isBroken(old.fence):
		j.blame("%s had the name for another %v, and %s does not get it: %v", r.Replaces.Text(), time.Until(old.until), r.Token.Text(), err)
	case err != nil || j.isBroken(g.Fence) || !time.Now().Before(until):
	default:
		j.counts["replacements"]++
		s.shared, s.told, s.fence, s.since, s.until = old.shared || g.Shared, g.Shared, g.Fence, time.Now(), until
		if g.Shared && !old.shared {
			j.blame("%s had an exclusive hold, and that of %s is shared", r.Replaces.Text(), r.Token.Text())
		}
		j.begins(tk.token, s)
		j.alone(tk.token, s)
		return true
	}
	return false
}

// died notes that a caller leaves its hold to the lease. A request that prolongs it may still be
// on its way.
func (j *judge) died() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts["deaths"]++
	j.end = time.Now().Add(3 * modelTTLs[len(modelTTLs)-1])
}

// breaks notes that all holds with a fence up to seen may end from now on. A member of a composite
// store may break such a hold late, after a repeat of its token was granted by the other members.
// So the token counts no more, as in package padlock, whose lock is lost then.
func (j *judge) breaks(seen uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = max(j.broken, seen)
	for _, s := range j.tokens {
		if s.fence <= seen {
			s.until = time.Time{}
			s.spent = s.spent || j.isComposite && s.fence > 0
		}
	}
}

func (j *judge) minted(fence uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.highest = max(j.highest, fence)
}

// checkFree waits for late requests, clean-ups and the leases of the dead. Then the name must be
// free. With an observed clock, a lease or cool-down ends only when the process has looked twice.
func (j *judge) checkFree(c *caller) {
	again := time.Second
	if c.g.Observed {
		again = 2 * modelTTLs[len(modelTTLs)-1]
	}
	for i, d := range []time.Duration{max(4*time.Second, time.Until(j.end)), again} {
		sleep(context.Background(), d)
		r := driver.Request{Name: "n", Token: driver.TokenOf(j.newToken()), TTL: modelTTLs[0]}
		tk := j.send(r.Token.Text())
		g, err := c.Acquire(j.t.Context(), r)
		j.log(c.who, "last acquire", &r, g, err)
		if err == nil {
			j.granted(tk, &r, g)
			c.giveUp(r.Token.Text())
			return
		} else if i == 1 {
			j.blame("nobody has the name, and it is not free: %v", err)
		}
	}
}
