package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A Call is a request that arrives.
type Call struct {
	Verb         Verb
	Token, Other string
	PID          int    // of the caller: its Holder has nothing else
	Fence        uint64 // the argument of some verbs
	Now          decide.Time
	Space        *Space
}

// A Seen is what a store shows of a name.
type Seen struct {
	Holds []SeenHold // sorted by PID
	Cool  decide.Time
	Fence uint64
}

// A SeenHold is a live hold.
type SeenHold struct {
	PID    int
	Shared bool
	Until  decide.Time
}

// A Twin is another implementation of the decisions, such as the scripts of Redis.
type Twin interface {
	// Do brings the name to a state that Save returned, or to none, and lets the request arrive.
	Do(saved any, c *Call) (Answer, Seen, error)
	Save() (any, error)
	// Shares reports whether a newcomer may share the name now. The state is of no use afterwards.
	Shares(c *Call) (bool, error)
}

// Compared says how much was compared with a twin.
type Compared struct {
	States, Transitions int
	Unsure              int // the twin cannot tell why a token has no hold, as it may
	Refused             int // the twin refuses a released token for longer, as it may
	Complete            bool
}

// A standing is a state as it was reached, with the times, fences and tokens of that way.
type standing struct {
	w     *world
	saved any
	named [maxTokens]int // how many tokens were called so before
	way   []string
}

// Compare makes every step of a space on a twin, too, level by level. Of a level with more than width
// states it draws so many. It ends after most transitions.
func (sp *Space) Compare(ctx context.Context, t Twin, width, most int, seed uint64) (Compared, error) {
	m := comparison{t: t, known: map[string]bool{}}
	m.Complete = true
	w := &world{sp: sp, l: ledger{now: base, wish: -1}}
	level := []*standing{{w: w}}
	random := rand.New(rand.NewPCG(seed, 0))
	for len(level) > 0 {
		if len(level) > width {
			random.Shuffle(len(level), func(i, j int) { level[i], level[j] = level[j], level[i] })
			level, m.Complete = level[:width], false
		}
		m.after = nil
		for _, st := range level {
			if m.Transitions >= most {
				m.Complete = false
				return m.Compared, nil
			}
			if err := cmp.Or(ctx.Err(), m.expand(st)); err != nil {
				return m.Compared, err
			}
		}
		level = m.after
	}
	return m.Compared, nil
}

type comparison struct {
	Compared
	t     Twin
	known map[string]bool
	after []*standing
}

func (m *comparison) expand(st *standing) error {
	m.States++
	st.w.l.wall = uint64(st.w.l.now)
	all := st.w.steps()
	for i := range all {
		s := &all[i]
		next := &standing{w: &world{}, saved: st.saved, named: st.named, way: append(slices.Clip(st.way), s.label)}
		if err := st.w.take(s, next.w); err != nil {
			return m.told(next, err)
		}
		if s.arrives {
			m.Transitions++
		}
		if err := m.follow(st, next, s); err != nil {
			return m.told(next, err)
		}
	}
	return nil
}

func (m *comparison) told(st *standing, err error) error {
	return fmt.Errorf("%s: %w", strings.Join(st.way, " | "), err)
}

var errApart = errors.New("the twin may differ here, and does")

// follow lets a request arrive at the twin, and keeps the state after it if it is new.
func (m *comparison) follow(st, next *standing, s *step) error {
	copied := &world{}
	next.w.copyTo(copied)
	key, _ := copied.text()
	isNew := !m.known[key]
	if s.arrives {
		c := st.call(&s.f)
		err := m.compare(st, next, c)
		if err == errApart {
			return nil
		}
		if err != nil {
			return err
		}
		if isNew {
			if next.saved, err = m.t.Save(); err != nil {
				return err
			}
		}
		free, err := m.t.Shares(c)
		if err != nil {
			return err
		}
		if want := !next.w.s.Excludes("newcomer", true, next.w.present()); free != want {
			return fmt.Errorf("a newcomer may share the name: %v, want %v", free, want)
		}
	}
	if isNew {
		m.known[key] = true
		next.renew()
		m.after = append(m.after, next)
	}
	return nil
}

// renew gives a token that nothing remembers a new name.
func (st *standing) renew() {
	closed := st.w.l.tokens
	st.w.forget()
	for i := range closed {
		if closed[i].closed && !st.w.l.tokens[i].closed {
			st.named[i]++
		}
	}
}

func (st *standing) token(i int8) string { return fmt.Sprint(names[i], st.named[i]) }

func (st *standing) call(f *flight) *Call {
	return &Call{Verb: f.verb, Token: st.token(f.tok), Other: st.token(f.other), PID: int(f.tok) + 1, Fence: f.arg, Now: st.w.l.now, Space: st.w.sp}
}

// compare lets a request arrive at the twin, and compares the answer and what is seen then.
func (m *comparison) compare(st, next *standing, c *Call) error {
	got, seen, err := m.t.Do(st.saved, c)
	if err != nil {
		return err
	}
	want := next.w.got
	released := c.Verb <= Replace && st.w.l.tokens[c.PID-1].closed
	switch {
	case errors.Is(got.Err, driver.ErrLost) && want.Err == nil && released:
		m.Refused++
		return errApart
	case released && got.Err != nil && want.Err != nil:
		m.Refused++
	case errors.Is(got.Err, driver.ErrLost) && want.Err == driver.ErrExpired,
		got.Outcome == driver.OutcomeGone && (want.Outcome == driver.OutcomeExpired || want.Outcome == driver.OutcomeTaken):
		m.Unsure++
	case want.Err != nil && !errors.Is(got.Err, sentinel(want.Err)), want.Err == nil && got.Err != nil:
		return fmt.Errorf("the answer is %v, want %v", got.Err, want.Err)
	case got.Outcome != want.Outcome:
		return fmt.Errorf("the outcome is %v, want %v", got.Outcome, want.Outcome)
	case got.Err == nil && got.Until != 0 && got.Until != want.Until:
		return fmt.Errorf("the lease lasts for %v, want %v", got.Until.Sub(c.Now), want.Until.Sub(c.Now))
	case got.Fence != 0 && want.Fence != 0:
		if err := differs("fence", got.Fence, want.Fence); err != nil {
			return err
		}
	}
	return differs("what is seen", fmt.Sprint(seen), fmt.Sprint(next.w.seen()))
}

// sentinel is the error by which errors.Is recognises err.
func sentinel(err error) error {
	if _, ok := err.(*driver.HeldError); ok {
		return driver.ErrHeld
	}
	return err
}

// seen is what decide shows.
func (w *world) seen() Seen {
	s := Seen{Fence: w.s.Fence}
	for i := range w.sp.Tokens {
		if h := w.s.Live(names[i], w.present()); h != nil {
			s.Holds = append(s.Holds, SeenHold{i + 1, h.Shared, h.Until})
		}
	}
	if w.s.Cool > w.l.now {
		s.Cool = w.s.Cool
	}
	return s
}
