package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// setClock is a clock that a test sets.
type setClock struct {
	driver.Clock
	now driver.Instant
}

func (c *setClock) Now() driver.Instant { return c.now }

// TestAdviceEnds: when JoinFirst is true, and when it is not any more.
func TestAdviceEnds(t *testing.T) {
	for what, c := range map[string]struct {
		opts  []Option
		then  func(s *Store, clock *setClock)
		joins bool
	}{
		"at once":             {then: func(*Store, *setClock) {}, joins: true},
		"plain strings":       {opts: []Option{PlainStrings()}, then: func(*Store, *setClock) {}, joins: true},
		"without fences":      {opts: []Option{PlainStrings(), NoFences()}, then: func(*Store, *setClock) {}},
		"a lost connection":   {then: func(s *Store, _ *setClock) { s.checks.countTurn() }},
		"found free":          {then: func(s *Store, _ *setClock) { s.handOvers.remove("job") }},
		"in the same second":  {then: func(_ *Store, c *setClock) { c.now += driver.Instant(memoryOfHandOver) - 1 }, joins: true},
		"a second later":      {then: func(_ *Store, c *setClock) { c.now += driver.Instant(memoryOfHandOver) }},
		"with another name":   {then: func(s *Store, c *setClock) { c.now++; s.handOvers.add("other", c.now) }, joins: true},
		"after the last name": {then: func(s *Store, c *setClock) { c.now += 2 * driver.Instant(time.Second); s.handOvers.add("other", c.now) }},
		"with too many names": {then: func(s *Store, c *setClock) {
			for i := range mostHandOvers {
				s.handOvers.add(fmt.Sprint(i), c.now)
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			set, clock := defaults(), &setClock{now: driver.Instant(time.Hour)}
			for _, o := range c.opts {
				o(&set)
			}
			set.clock = clock
			s := newStore(set)
			s.checks.valid.Store(true)
			if s.JoinFirst("job") {
				t.Fatal("JoinFirst is true before a hand-over")
			}
			s.handOvers.add("job", clock.now)
			c.then(s, clock)
			if joins := s.JoinFirst("job"); joins != c.joins {
				t.Errorf("JoinFirst is %v", joins)
			}
			if n := len(s.handOvers.m); n > mostHandOvers {
				t.Errorf("%d names are kept", n)
			}
		})
	}
}
