package driver

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// These limits apply to every store. A store with narrower limits states them in [Guarantees].
const (
	MaxName  = 1024 // bytes of a name
	MaxToken = 128  // bytes of a token
	MaxLabel = 256  // bytes of Holder.Label and Holder.Host
	MaxTrace = 64   // bytes of Holder.Trace
	MaxSpent = 8    // tokens in Request.Spent

	MaxStoreID = 64 // bytes of the id of a store

	// MinTTL and MaxTTL also limit cool-downs and Request.AtLeast.
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour

	// DefaultMaxTTL is the longest lease (Guarantees.MaxTTL) in redisstore and memstore, unless
	// their option MaxTTL sets another one. A Redis that has restarted may have lost locks, so it
	// gives no new ones until every earlier lease must have ended. With DefaultMaxTTL that takes
	// less than a minute.
	DefaultMaxTTL = 58 * time.Second

	// MaxSilence is how long a call waits, at most, for a silent server.
	MaxSilence = 5 * time.Second

	// MaxReservation is the longest time for which a name that was handed to a waiter stays
	// reserved if the waiter does not claim it.
	MaxReservation = 500 * time.Millisecond

	// MaxIntent is how long a reader that waits to be promoted keeps new readers out. The time
	// counts from the reader's last call of Convert.
	MaxIntent = 2 * time.Second

	// MaxFence is greater than every fence. Fences follow the clock, so they reach MaxFence in the
	// year 2255.
	MaxFence = 1 << 53

	// MaxFenceAbove is the greatest Request.FenceAbove. It leaves 2^50 fences for later grants, so
	// no caller can use up the fences of a name.
	MaxFenceAbove = MaxFence - 1<<50
)

// RenewalInterval is the longest time between two renewals of a hold with a lease of ttl. Usually a
// hold is renewed after a third of its lease. But renewals are spread over time, so some come later
// than that. In some stores, a hold that nobody extends lasts longer than its TTL, by at most
// RenewalInterval; see [Store].Extend.
func RenewalInterval(ttl time.Duration) time.Duration { return ttl * 2 / 5 }

// reservedToken marks an exclusive hold in the sorted sets of Symfony's clients. Padlock keeps its
// tokens in the same sets, so a hold with this token would look like that mark.
const reservedToken = "__write__"

// reservedTokens is the beginning of padlock's own marks, such as the mark for a cool-down. Padlock
// writes these marks into the sorted sets, too. A token that begins with this text would look like
// a mark.
const reservedTokens = "padlock:"

// Validate checks r against the limits of this package and those of the store, which are in g.
// Acquire, Wait, Convert and similar methods of a store call it first. The error is ErrInvalid and
// names the parameter. There are two exceptions, in which the error is errors.ErrUnsupported: r has
// AtLeast and the store has no cool-downs, or r is Detached and the store cannot detach a hold from
// its process or connection.
func (r *Request) Validate(g *Guarantees) error {
	if err := CheckHold(r.Name, r.Token, g); err != nil {
		return err
	}
	if r.Replaces != "" {
		if err := CheckToken(r.Replaces); err != nil {
			return fmt.Errorf("token to be replaced: %w", err)
		}
	}
	switch {
	case len(r.Holder.Label) > MaxLabel:
		return invalid("holder label", fmt.Sprintf("has %d bytes, at most %d are allowed", len(r.Holder.Label), MaxLabel))
	case len(r.Holder.Host) > MaxLabel:
		return invalid("holder host", fmt.Sprintf("has %d bytes, at most %d are allowed", len(r.Holder.Host), MaxLabel))
	}
	if len(r.Holder.Trace) > MaxTrace {
		return invalid("holder trace", fmt.Sprintf("has %d bytes, at most %d are allowed", len(r.Holder.Trace), MaxTrace))
	}
	if len(r.Spent) > MaxSpent {
		return invalid("Spent", fmt.Sprintf("has %d tokens, at most %d are allowed", len(r.Spent), MaxSpent))
	}
	if r.FenceAbove > MaxFenceAbove {
		return invalid("FenceAbove", fmt.Sprintf("is %d, at most 2^53 - 2^50 is allowed, so that greater fences are left", r.FenceAbove))
	}
	if err := CheckTTL("TTL", r.TTL, g); err != nil {
		return err
	}
	if r.Detached && g.Bound != ToNothing && !g.Detached {
		return fmt.Errorf("a hold that is not bound to a %v: %w", g.Bound, errors.ErrUnsupported)
	}
	if r.AtLeast == 0 {
		return nil
	}
	return CheckKeep("AtLeast", r.AtLeast, g)
}

// CheckName returns ErrInvalid if a name is empty, longer than MaxName, or longer than g allows. A
// store calls CheckName first in each method that takes a name but no token.
func CheckName(name string, g *Guarantees) error {
	if name == "" {
		return invalid("name", "is empty")
	}
	most := MaxName
	if g.MaxName > 0 {
		most = min(MaxName, g.MaxName)
	}
	if len(name) > most {
		return invalid("name", fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), most))
	}
	return nil
}

// CheckHold returns the error of CheckName or CheckToken. A store calls CheckHold first in each
// method that takes a name and a token, such as Extend and Release.
func CheckHold(name, token string, g *Guarantees) error {
	if err := CheckName(name, g); err != nil {
		return err
	}
	return CheckToken(token)
}

// CheckToken returns ErrInvalid for a token that no hold can have: an empty token, one of more than
// MaxToken bytes, the word "__write__", which Symfony reserves, and one that begins with
// "padlock:". Every method of a store that takes a token calls CheckToken first. The error does not
// contain the token.
func CheckToken(token string) error {
	switch {
	case token == "":
		return invalid("token", "is empty")
	case len(token) > MaxToken:
		return invalid("token", fmt.Sprintf("has %d bytes, at most %d are allowed", len(token), MaxToken))
	case token == reservedToken:
		return invalid("token", "is a word that Symfony reserves")
	case strings.HasPrefix(token, reservedTokens):
		return invalid("token", "begins with "+reservedTokens+", which padlock reserves")
	}
	return nil
}

// CheckFence returns ErrInvalid for a number that cannot be a fence: 2^53 or more.
func CheckFence(fence uint64) error {
	if fence >= MaxFence {
		return invalid("fence", "is not below 2^53")
	}
	return nil
}

// CheckTTL checks that a lease of length ttl is neither too short nor too long, by the limits of
// this package and by those of g. The error is ErrInvalid, and its text contains param.
func CheckTTL(param string, ttl time.Duration, g *Guarantees) error {
	low, high := ttlRange(g)
	err := checkRange(param, ttl, low, high)
	if err != nil && ttl > high && ttl <= MaxTTL {
		return fmt.Errorf("%w; to raise the limit of the store, set its MaxTTL (max-ttl=%v in its URL)", err, ttl)
	}
	return err
}

func checkRange(param string, d, low, high time.Duration) error {
	if d < low || d > high {
		return invalid(param, fmt.Sprintf("is %v, allowed are %v to %v", d, low, high))
	}
	return nil
}

// ttlRange returns the shortest and the longest lease that CheckTTL allows.
func ttlRange(g *Guarantees) (low, high time.Duration) {
	low, high = max(MinTTL, g.MinTTL), MaxTTL
	if g.MaxTTL > 0 {
		high = min(MaxTTL, g.MaxTTL)
	}
	return low, high
}

// CheckKeep checks a cool-down or an AtLeast. 0 means none and is always allowed. Any other value
// must be at least the shortest lease and at most MaxTTL. Guarantees.MaxTTL does not apply: nobody
// works in a cool-down. For a store without cool-downs, the error is errors.ErrUnsupported.
func CheckKeep(param string, keep time.Duration, g *Guarantees) error {
	if keep == 0 {
		return nil
	}
	if !g.CoolDown {
		return fmt.Errorf("%s: this store has no cool-downs: %w", param, errors.ErrUnsupported)
	}
	low, high := keepRange(g)
	return checkRange(param, keep, low, high)
}

// keepRange returns the shortest and the longest cool-down that CheckKeep allows.
func keepRange(g *Guarantees) (low, high time.Duration) { return max(MinTTL, g.MinTTL), MaxTTL }

// NearestKeep returns keep if CheckKeep allows it. Otherwise it returns the nearest time that
// CheckKeep allows, together with the error of CheckKeep. If keep is negative, or if the store has
// no cool-downs, that time is 0.
func NearestKeep(param string, keep time.Duration, g *Guarantees) (time.Duration, error) {
	err := CheckKeep(param, keep, g)
	switch {
	case err == nil:
		return keep, nil
	case keep < 0 || !g.CoolDown:
		return 0, err
	}
	low, high := keepRange(g)
	return min(max(keep, low), high), err
}

func invalid(param, why string) error {
	return fmt.Errorf("%w: %s %s", ErrInvalid, param, why)
}
