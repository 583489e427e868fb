package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// combine derives the promises of the quorum from those of its members. A hold can be lost because
// a single member fails. So the quorum can promise to keep holds only in those cases in which every
// member promises it.
func (s *Store) combine() driver.Guarantees {
	weakest := func(p func(*driver.Guarantees) driver.Promise) driver.Promise {
		return slices.Min(each(s, func(m *member) driver.Promise { return p(&m.g) }))
	}
	every := func(is func(*member) bool) bool { return s.counted(is) == len(s.members) }
	g := driver.Guarantees{
		Store:            "quorum",
		SurvivesRestart:  weakest(func(g *driver.Guarantees) driver.Promise { return g.SurvivesRestart }),
		SurvivesFailover: weakest(func(g *driver.Guarantees) driver.Promise { return g.SurvivesFailover }),
		SafeEviction:     weakest(func(g *driver.Guarantees) driver.Promise { return g.SafeEviction }),
		SafeClockJump:    s.safeClockJump(),
		Bound:            slices.Max(each(s, func(m *member) driver.Bound { return m.g.Bound })),
		LossDelay:        slices.Max(each(s, func(m *member) time.Duration { return m.g.LossDelay })),
		MinTTL:           slices.Max(each(s, func(m *member) time.Duration { return m.g.MinTTL })),
		MaxTTL:           smallestLimit(s, func(m *member) time.Duration { return m.g.MaxTTL }),
		MaxName:          smallestLimit(s, func(m *member) int { return m.g.MaxName }),
		MaxLabel:         smallestLimit(s, func(m *member) int { return m.g.MaxLabel }),
		DeadWaiter:       slices.Max(each(s, func(m *member) time.Duration { return m.g.DeadWaiter })),
		RefusedIsSpent:   true, // after a refusal, the members that granted the try release its token
		Lease:            s.counted(func(m *member) bool { return m.g.Lease }) >= s.need,
		Observed:         s.counted(func(m *member) bool { return !m.g.Observed }) < s.need,
		Shared:           every(func(m *member) bool { return m.g.Shared }),
		CoolDown:         every(func(m *member) bool { return m.g.CoolDown }),
	}
	if s.rule == All {
		g.Store = "all"
	}
	if s.fences {
		g.Fence, g.SharedFence = driver.FenceDurable, weakest(func(g *driver.Guarantees) driver.Promise { return g.SharedFence })
	}
	if !g.Shared {
		g.SharedFence = driver.PromiseNo
	} else if s.rule == Majority {
		g.SharedFence = min(g.SharedFence, driver.PromisePartly)
	}
	g.Lacks, g.Notes = s.lacks(), s.notes()
	return g
}

// lacks returns the abilities that the quorum does not have, because its members do not have them.
func (s *Store) lacks() driver.Ability {
	lacks := driver.AbilitySamePlace
	without := func(a driver.Ability, has bool) {
		if !has {
			lacks |= a
		}
	}
	n := len(s.members)
	inspects := s.counted((*member).inspects) == n
	without(driver.AbilityWaiter, s.counted(func(m *member) bool { return m.waiter != nil }) > 0)
	without(driver.AbilityInspect, inspects)
	without(driver.AbilityList, s.counted((*member).lists) == n)
	without(driver.AbilityBreak, s.fences && inspects && s.counted((*member).breaks) == n)
	without(driver.AbilityFenceRaiser, s.fences)
	without(driver.AbilityReporter, s.counted(func(m *member) bool { return m.reporter != nil }) > 0)
	without(driver.AbilityStoreID, s.rule == All && s.counted((*member).hasID) == n)
	return lacks
}

// cannot reports whether the quorum lacks an ability.
func (s *Store) cannot(a driver.Ability) bool { return s.guarantees.Lacks&a != 0 }

func each[T any](s *Store, of func(*member) T) []T {
	var out []T
	for _, m := range s.members {
		out = append(out, of(m))
	}
	return out
}

func (s *Store) counted(is func(*member) bool) (n int) {
	for _, m := range s.members {
		if is(m) {
			n++
		}
	}
	return n
}

// safeClockJump returns whether it is certain that a clock jump never leads to two holders. A hold
// may still be lost because of a clock jump.
//
// Any two quorums have at least 2×need−n members in common, where n is the number of all members.
// If fewer members than that are unsafe, one of the common members is safe. The safe member lets no
// second holder in, whatever the clocks of the other members do.
func (s *Store) safeClockJump() driver.Promise {
	for p := driver.PromiseYes; p > driver.PromiseNo; p-- {
		unsafe := s.counted(func(m *member) bool { return m.g.SafeClockJump < p })
		if unsafe < 2*s.need-len(s.members) {
			return p
		}
	}
	return driver.PromiseNo
}

// smallestLimit returns the smallest limit of a member, or 0 if none has a limit.
func smallestLimit[T int | time.Duration](s *Store, of func(*member) T) (limit T) {
	for _, l := range each(s, of) {
		if l > 0 && (limit == 0 || l < limit) {
			limit = l
		}
	}
	return limit
}

func (s *Store) notes() []string {
	n := len(s.members)
	notes := []string{fmt.Sprintf("%d of %d members must agree.", s.need, n)}
	if s.rule == All {
		notes = append(notes, "A member that is out of reach stops everybody.")
	}
	if s.rule == Majority && n < 3 {
		notes = append(notes, fmt.Sprintf("Warning: with %d members none may be lost; use 3 or more.", n))
	} else if s.rule == Majority && n%2 == 0 {
		notes = append(notes, fmt.Sprintf("Warning: %d members survive no more losses than %d do; use an odd number.", n, n-1))
	}
	if s.rule == Majority && 2*s.need-n == 1 {
		notes = append(notes, "A hold that is only on a bare quorum is broken by one member that forgets it (restart without data, eviction, clock set forward); holds are kept on all members that can be reached.")
	}
	if !s.fences {
		notes = append(notes, "Fences are off.")
	} else if s.rule == Majority && s.counted(func(m *member) bool { return m.g.Shared }) == n {
		notes = append(notes, "Readers that hold together have one fence while all members answer; one that comes when a member was late may have a greater one, and a guard then refuses the older readers.")
	}
	if bound := s.counted(func(m *member) bool { return !m.g.Lease }); bound > 0 && bound < n {
		notes = append(notes, "Members without leases keep a hold beyond its lease, as long as its process or connection lives and it is not released.")
	}
	if s.counted(func(m *member) bool { return m.g.Hashed }) > 0 {
		notes = append(notes, "Two names can share one lock, because they can at some members. The quorum cannot tell which.")
	}
	for _, m := range s.members {
		for _, note := range m.g.Notes {
			notes = append(notes, fmt.Sprintf("%v: %s", m, note))
		}
	}
	return notes
}
