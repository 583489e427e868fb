package driver

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// These limits apply to every store. [Guarantees] may be narrower.
const (
	MaxName    = 1024 // bytes
	MaxToken   = 128  // bytes
	MaxLabel   = 1024 // bytes
	MaxHost    = 256  // bytes
	MaxTrace   = 64   // bytes
	MaxSpent   = 8
	MaxStoreID = 64 // bytes

	// MinTTL and MaxTTL limit leases and cool-downs.
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour

	DefaultMaxTTL  = 58 * time.Second // of redisstore
	MaxSilence     = 5 * time.Second
	MaxReservation = 500 * time.Millisecond // see Waiter
	MaxIntent      = 2 * time.Second        // see Converter

	MaxFence      = 1 << 53 // above every fence
	MaxFenceAbove = MaxFence - 1<<50
)

// The reasons for some limits:
//
//   - MaxFence: JSON, Lua and floating point keep smaller numbers exactly. Fences follow the clock,
//     so they reach it in the year 2255.
//   - MaxFenceAbove leaves 2^50 fences for later grants, so no caller can use up the fences of a
//     name.
//   - DefaultMaxTTL: a Redis that has restarted may have lost locks, so it gives no new ones until
//     every earlier lease must have ended. That takes less than a minute.

// reservedToken marks an exclusive hold in the sorted sets of Symfony's clients. Padlock keeps its
// tokens in the same sets, so a hold with this token would look like that mark.
const reservedToken = "__write__"

// reservedTokens is the beginning of padlock's own marks, such as the mark for a cool-down. Padlock
// writes these marks into the sorted sets, too. A token that begins with this text would look like
// a mark.
const reservedTokens = "padlock:"

// Validate checks r against all limits.
func (r *Request) Validate(g *Guarantees) error {
	if err := CheckHold(r.Name, r.Token.Text(), g); err != nil {
		return err
	}
	if r.Replaces.Text() != "" {
		if err := CheckToken(r.Replaces.Text()); err != nil {
			return fmt.Errorf("token to be replaced: %w", err)
		}
	}
	switch {
	case len(r.Holder.Label) > narrower(MaxLabel, g.MaxLabel):
		return tooLong("holder label", r.Holder.Label, MaxLabel, g.MaxLabel, g)
	case len(r.Holder.Host) > MaxHost:
		return tooLong("holder host", r.Holder.Host, MaxHost, 0, g)
	case len(r.Holder.Trace) > MaxTrace:
		return tooLong("holder trace", r.Holder.Trace, MaxTrace, 0, g)
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
	if r.Detached && g.Bound != BoundToNothing && !g.Detached {
		return fmt.Errorf("a hold that is not bound to a %v: %w", g.Bound, errors.ErrUnsupported)
	}
	return nil
}

// narrower returns the limit of a store that narrows most to own, if own is not 0.
func narrower(most, own int) int {
	if own > 0 {
		return min(most, own)
	}
	return most
}

// tooLong says that a text is longer than narrower(most, own). If own decides, the error names the
// store, since another store may allow more.
func tooLong(param, text string, most, own int, g *Guarantees) error {
	why := fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), narrower(most, own))
	if own > 0 && own < most {
		why += " in a store of the kind " + g.Store
	}
	return invalid(param, why)
}

// CheckName checks a name.
func CheckName(name string, g *Guarantees) error {
	if name == "" {
		return invalid("name", "is empty")
	}
	if len(name) > narrower(MaxName, g.MaxName) {
		return tooLong("name", name, MaxName, g.MaxName, g)
	}
	return nil
}

// CheckHold checks a name and a token.
func CheckHold(name, token string, g *Guarantees) error {
	if err := CheckName(name, g); err != nil {
		return err
	}
	return CheckToken(token)
}

// CheckExtend checks the arguments of Extend.
func CheckExtend(name, token string, ttl time.Duration, g *Guarantees) error {
	err := CheckHold(name, token, g)
	if err == nil && ttl != 0 {
		err = CheckTTL("TTL", ttl, g)
	}
	return err
}

// CheckRelease checks the arguments of Release.
func CheckRelease(name, token string, keep time.Duration, g *Guarantees) error {
	return cmp.Or(CheckHold(name, token, g), CheckKeep("cool-down", keep, g))
}

// CheckToken checks a token. Some are reserved.
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

// CheckFence checks that fence is below MaxFence.
func CheckFence(fence uint64) error {
	if fence >= MaxFence {
		return invalid("fence", "is not below 2^53")
	}
	return nil
}

// CheckTTL checks a lease. The error names param.
func CheckTTL(param string, ttl time.Duration, g *Guarantees) error {
	high := MaxTTL
	if g.MaxTTL > 0 {
		high = min(MaxTTL, g.MaxTTL)
	}
	err := checkRange(param, ttl, max(MinTTL, g.MinTTL), high)
	if ttl > high && ttl <= MaxTTL {
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

// CheckKeep checks a cool-down, or 0. For a store without them, it returns errors.ErrUnsupported.
func CheckKeep(param string, keep time.Duration, g *Guarantees) error {
	if keep == 0 {
		return nil
	}
	if !g.CoolDown {
		return fmt.Errorf("%s: this store has no cool-downs: %w", param, errors.ErrUnsupported)
	}
	return checkRange(param, keep, max(MinTTL, g.MinTTL), MaxTTL) // not g.MaxTTL: nobody works in a cool-down
}

func invalid(param, why string) error {
	return fmt.Errorf("%w: %s %s", ErrInvalid, param, why)
}
