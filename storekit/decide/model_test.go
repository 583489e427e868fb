package decide_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A model says what the rules are, in another form than package decide: as what is known about each
// token.
type model struct {
	now   decide.Now
	top   uint64 // the highest fence
	cool  decide.Time
	wants string // the reader that waits for its promotion
	until decide.Time
	known map[string]*about
}

// about is what a model knows about a token.
type about struct {
	has, shared, reserved bool
	fence                 uint64
	until                 decide.Time
	taken                 bool        // its last hold was taken away
	spent                 decide.Time // the token is refused until then
}

func (m *model) about(token string) *about {
	if m.known[token] == nil {
		m.known[token] = &about{}
	}
	return m.known[token]
}

func (m *model) end(d time.Duration) decide.Time { return m.now.At.Add(d + m.now.Slack) }

func (m *model) live(token string) *about {
	if a := m.known[token]; a != nil && a.has && a.until > m.now.At {
		return a
	}
	return nil
}

// others counts the live holds of other tokens.
func (m *model) others(token string) (readers, writers int) {
	for other := range m.known {
		if a := m.live(other); a == nil || other == token {
			continue
		} else if a.shared {
			readers++
		} else {
			writers++
		}
	}
	return readers, writers
}

// intent returns the reader that waits for its promotion, or "".
func (m *model) intent() string {
	if m.until > m.now.At && m.live(m.wants) != nil {
		return m.wants
	}
	return ""
}

func (m *model) excluded(token string, shared bool) bool {
	readers, writers := m.others(token)
	intent := m.intent()
	return m.cool > m.now.At || writers > 0 || readers > 0 && !shared || shared && intent != "" && intent != token
}

func (m *model) mint(above uint64) uint64 {
	m.top = max(m.top+1, above+1, uint64(m.now.Wall))
	return m.top
}

// begin gives the name to a token, and takes away the holds that have ended.
func (m *model) begin(r *driver.Request) *about {
	a := m.about(r.Token.Text())
	readers, _ := m.others(r.Token.Text())
	fence := m.top
	if !r.Shared || readers == 0 || r.FenceAbove >= m.top {
		fence = m.mint(r.FenceAbove)
	}
	for token, other := range m.known {
		if other.has && m.live(token) == nil {
			if other.has = false; other != a && !other.reserved {
				other.taken = true
			}
		}
	}
	a.has, a.shared, a.reserved, a.taken, a.fence, a.until = true, r.Shared, false, false, fence, 0
	return a
}

func (m *model) lengthen(a *about, r *driver.Request) {
	a.until = max(a.until, m.end(r.TTL))
}

func (m *model) acquire(r *driver.Request, turn bool) error {
	a := m.about(r.Token.Text())
	switch from := m.live(r.Replaces.Text()); {
	case m.live(r.Token.Text()) != nil:
		if a.reserved {
			a.reserved, a.until = false, 0
		}
	case a.spent > m.now.At, r.Replaces.Text() != "" && (from == nil || from.reserved):
		return driver.ErrLost
	case r.Replaces.Text() != "":
		if m.wants == r.Replaces.Text() {
			m.wants = r.Token.Text()
		}
		a.has, a.shared, a.reserved, a.taken, a.until = true, from.shared, false, false, from.until
		a.fence, from.has = m.mint(r.FenceAbove), false
	case !turn || m.excluded(r.Token.Text(), r.Shared):
		return driver.ErrHeld
	default:
		m.begin(r)
	}
	m.lengthen(a, r)
	return nil
}

func (m *model) reserve(r *driver.Request) {
	a := m.begin(r)
	a.reserved, a.until = true, m.end(driver.MaxReservation)
}

// dropReservations forgets the reservations that have ended, as Trim does.
func (m *model) dropReservations() {
	for _, a := range m.known {
		a.has = a.has && (!a.reserved || a.until > m.now.At)
	}
}

func (m *model) lost(token string) error {
	switch a := m.about(token); {
	case !a.has, a.reserved, a.until <= m.now.At && a.fence < m.top:
		return driver.ErrLost
	case a.until <= m.now.At:
		return driver.ErrExpired
	}
	return nil
}

func (m *model) extend(token string, ttl time.Duration) error {
	err := m.lost(token)
	if err == nil && ttl > 0 {
		m.lengthen(m.about(token), &driver.Request{TTL: ttl})
	}
	return err
}

func (m *model) release(token string, keep time.Duration) driver.Outcome {
	a := m.about(token)
	lapsed, overtaken := a.until <= m.now.At, a.fence < m.top
	switch had := a.has; {
	case had && (!a.reserved || !lapsed):
		if a.has = false; m.wants == token {
			m.wants = ""
		}
		if lapsed && overtaken {
			return driver.OutcomeTaken
		} else if lapsed {
			return driver.OutcomeExpired
		}
		if keep > 0 && !a.reserved {
			m.cool = max(m.cool, m.end(keep))
		}
		return driver.OutcomeReleased
	case a.taken:
		a.taken = false
		return driver.OutcomeTaken
	default:
		a.has, a.spent = false, m.end(decide.SpentFor)
		return driver.OutcomeGone
	}
}

func (m *model) convert(r *driver.Request) error {
	if err := m.lost(r.Token.Text()); err != nil {
		return err
	}
	a := m.about(r.Token.Text())
	if readers, _ := m.others(r.Token.Text()); a.shared && !r.Shared {
		switch intent := m.intent(); {
		case intent != "" && intent != r.Token.Text():
			return driver.ErrPromotionConflict
		case readers > 0:
			m.wants, m.until = r.Token.Text(), m.end(driver.MaxIntent)
			return driver.ErrHeld
		}
		a.fence = m.mint(r.FenceAbove)
	}
	if a.shared = r.Shared; m.wants == r.Token.Text() {
		m.wants = ""
	}
	m.lengthen(a, &driver.Request{TTL: r.TTL})
	return nil
}

func (m *model) raise(token string, fence uint64) error {
	err := m.lost(token)
	if a := m.about(token); err == nil && a.fence < fence {
		a.fence, m.top = fence, max(m.top, fence)
	}
	return err
}

func (m *model) breakAll() {
	m.mint(0)
	for _, a := range m.known {
		if a.has && (!a.reserved || a.until > m.now.At) {
			a.taken = true
		}
		a.has = false
	}
	m.cool, m.wants = 0, ""
}

// text says who has the name, and what the requests of each token would get.
func (m *model) text() string {
	var out []string
	for _, token := range slices.Sorted(maps.Keys(m.known)) {
		if a := m.live(token); a != nil {
			out = append(out, fmt.Sprint(token, a.shared, a.reserved, a.fence, a.until))
		}
	}
	return fmt.Sprint(m.top, max(m.cool, m.now.At), m.intent(), out)
}

func textOf(s *decide.State, now decide.Now) string {
	var out []string
	for _, h := range s.Holds {
		if h.Until > now.At {
			out = append(out, fmt.Sprint(h.Token, h.Shared, h.Reserved, h.Fence, h.Until))
		}
	}
	slices.Sort(out)
	return fmt.Sprint(s.Fence, max(s.Cool, now.At), s.Intent.Token, out)
}

// A pair makes the same steps on a State and on a model.
type pair struct {
	s   *decide.State
	m   *model
	log []string
}

// times pass between two steps: none, to the microsecond at which a lease ends, or much longer.
var times = []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, time.Microsecond, time.Second - time.Microsecond, time.Second, 500 * time.Millisecond, 2 * time.Second, 61 * time.Second}

func (p *pair) step(what, with byte) (want, got any) {
	d := times[int(what/16)%len(times)]
	p.m.now.At, p.m.now.Wall = p.m.now.At.Add(d), p.m.now.Wall+d.Microseconds()
	now := p.m.now
	p.s.Trim(now)
	p.m.wants = p.m.intent()
	token := string('a' + rune(with%4))
	r := driver.Request{Token: driver.TokenOf(token), TTL: time.Second, Shared: with&4 != 0}
	if with&24 == 24 {
		r.TTL = 2 * time.Second
	}
	if with&96 == 96 {
		r.FenceAbove = p.m.top + uint64(with&1)
	}
	keep := time.Duration(with>>6) * time.Second
	p.log = append(p.log, fmt.Sprintf("%d: step %d of %+v, keep %v", now.At, what%16, r, keep))
	switch what % 16 {
	case 0, 1, 2, 3:
		_, err := p.s.AcquireInTurn(&r, with&48 != 0, now)
		return p.m.acquire(&r, with&48 != 0), err
	case 4:
		r.Replaces = driver.TokenOf(string('a' + rune(with>>4%4)))
		_, err := p.s.Acquire(&r, now)
		return p.m.acquire(&r, true), err
	case 5, 6:
		if p.m.excluded(token, r.Shared) || p.m.live(token) != nil {
			return nil, nil
		}
		p.m.reserve(&r)
		_, err := p.s.Reserve(&r, now)
		return nil, err
	case 7, 8, 9:
		return p.m.release(token, keep), p.s.Release(token, keep, now)
	case 10, 11:
		_, err := p.s.Extend(token, keep, now)
		return p.m.extend(token, keep), err
	case 12, 13:
		_, _, err := p.s.Convert(&r, now)
		return p.m.convert(&r), err
	case 14:
		fence := p.m.top + uint64(with>>6)
		_, err := p.s.RaiseFence(token, fence, now)
		return p.m.raise(token, fence), err
	default:
		if with%3 != 0 || p.m.top == 0 {
			return nil, nil
		}
		p.m.breakAll()
		_, err := p.s.Break(p.s.Fence, now)
		return nil, err
	}
}

func (p *pair) run(t *testing.T, data []byte) {
	for ; len(data) >= 2; data = data[2:] {
		want, got := p.step(data[0], data[1])
		if _, held := got.(*driver.HeldError); held {
			got = driver.ErrHeld
		}
		if want != got || p.m.text() != textOf(p.s, p.m.now) {
			t.Fatalf("%s\nmodel: %v %s\ndecide: %v %s", strings.Join(p.log[max(0, len(p.log)-12):], "\n"), want, p.m.text(), got, textOf(p.s, p.m.now))
		}
		p.m.dropReservations()
		if len(p.s.Taken) == 16 {
			return // from here on the State forgets
		}
	}
}

// FuzzState makes random steps on a State and on a model.
func FuzzState(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		data := make([]byte, 100+i%2)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const start = 1_800_000_000_000_000
		now := decide.Now{At: start, Wall: start, Slack: time.Duration(len(data)%2) * time.Millisecond}
		(&pair{s: &decide.State{}, m: &model{now: now, known: map[string]*about{}}}).run(t, data)
	})
}
