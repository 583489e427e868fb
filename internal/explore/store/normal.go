package store

import (
	"bytes"
	"slices"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// Two worlds are the same if the same can happen from both. So a world is brought into a normal form:
//
//   - Times are multiples of the unit, plus or minus some ticks. Of the ticks only the order
//     and whether two are neighbours matter, so that a gap counts as one or two ticks.
//   - What has ended keeps only whether it ended now or before.
//   - Fences keep their order, and 4 lies between two neighbours.
//   - Tokens that have nothing anywhere are new. Tokens are sorted, as their names mean nothing.
//   - A token that stays refused for more than 30 units is refused until nothing else can end.
const (
	farUnits  = 30
	farOff    = base + 1<<40
	fenceStep = 4
)

// times adds the places of all times in a world.
func (w *world) times(at []*decide.Time) []*decide.Time {
	for i := range w.s.Holds {
		at = append(at, &w.s.Holds[i].Until)
	}
	for i := range w.s.Spent {
		at = append(at, &w.s.Spent[i].Until)
	}
	for i := range w.sp.Tokens {
		at = append(at, &w.l.tokens[i].end, &w.l.tokens[i].spent)
	}
	return append(at, &w.s.Cool, &w.s.Intent.Until, &w.l.cool, &w.l.wishEnd)
}

// normalTimes moves now to base, and keeps of the other times what matters.
func (w *world) normalTimes() {
	unit := decide.Time(w.sp.Unit.Microseconds())
	var room [32]*decide.Time
	all := w.times(room[:0])
	ticks := make([]decide.Time, 1, len(room)) // with 0, which is now
	for _, t := range all {
		if *t == 0 {
			continue
		}
		if *t += base - w.l.now; *t <= base {
			*t = max(*t, base-w.sp.tick())
		} else if *t > base+farUnits*unit {
			*t = farOff
		} else {
			_, f := w.split(*t)
			ticks = append(ticks, f)
		}
	}
	w.l.now = base
	slices.Sort(ticks)
	ticks = slices.Compact(ticks)
	now, _ := slices.BinarySearch(ticks, 0)
	var small [len(room)]decide.Time
	for i := now + 1; i < len(ticks); i++ {
		small[i] = small[i-1] + min(2*w.sp.tick(), ticks[i]-ticks[i-1])
	}
	for i := now - 1; i >= 0; i-- {
		small[i] = small[i+1] - min(2*w.sp.tick(), ticks[i+1]-ticks[i])
	}
	for _, t := range all {
		if *t > base && *t < farOff {
			i, f := w.split(*t)
			n, _ := slices.BinarySearch(ticks, f)
			*t = base + i*unit + small[n]
		}
	}
}

// split returns a time as a number of units from base, and ticks.
func (w *world) split(t decide.Time) (units, ticks decide.Time) {
	unit := decide.Time(w.sp.Unit.Microseconds())
	units = (t - base + unit/2) / unit
	return units, t - base - units*unit
}

// normalFences numbers the fences anew. Those that the clock makes are above all others.
func (w *world) normalFences() {
	if w.sp.First > 0 {
		return // they are near their end, where each number matters
	}
	at := append(make([]*uint64, 0, 32), &w.s.Fence, &w.l.top)
	for i := range w.s.Holds {
		at = append(at, &w.s.Holds[i].Fence)
	}
	for i := range w.sp.Tokens {
		at = append(at, &w.l.tokens[i].fence)
	}
	for i := range w.flights {
		at = append(at, &w.flights[i].arg)
	}
	var known [32]uint64
	all := known[:0]
	for _, f := range at {
		all = append(all, *f)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if all[0] != 0 {
		all = slices.Insert(all, 0, 0)
	}
	for _, f := range at {
		n, _ := slices.BinarySearch(all, *f)
		*f = uint64(n * fenceStep)
	}
}

// forget clears what says nothing any more.
func (w *world) forget() {
	for i := range w.sp.Tokens {
		a := &w.l.tokens[i]
		if a.has == nothing {
			*a = account{taken: a.taken, spent: a.spent, closed: a.closed}
		}
		if a.spent <= w.l.now {
			a.spent = 0
		}
		if a.closed && !a.taken && a.spent == 0 && a.has == nothing && !w.remembers(i) {
			a.closed = false // another token takes its place
		}
	}
	if w.l.cool < w.l.now {
		w.l.cool = 0
	}
	if w.s.Cool < w.l.now {
		w.s.Cool = 0
	}
}

// remembers reports whether the store or the network knows a token.
func (w *world) remembers(i int) bool {
	name := names[i]
	return slices.ContainsFunc(w.s.Holds, func(h decide.Hold) bool { return h.Token == name }) ||
		slices.Contains(w.s.Taken, name) ||
		slices.ContainsFunc(w.s.Spent, func(p decide.Spent) bool { return p.Token == name }) ||
		slices.ContainsFunc(w.flights, func(f flight) bool { return int(f.tok) == i || int(f.other) == i }) ||
		slices.ContainsFunc(w.queue, func(p place) bool { return int(p.tok) == i })
}

// code writes or reads times, fences and flags in few bytes.
type code struct {
	sp *Space
	b  []byte
}

func (c *code) byte(b byte) { c.b = append(c.b, b) }

func (c *code) next() byte {
	b := c.b[0]
	c.b = c.b[1:]
	return b
}

// A time is its units and ticks. There are fewer than 100 ticks, so 127 of them stand for no time, and
// for a far one.
func (c *code) time(w *world, t decide.Time) {
	switch {
	case t == 0:
		c.b = append(c.b, 0, 255)
	case t >= farOff:
		c.b = append(c.b, 1, 255)
	default:
		units, ticks := w.split(t)
		c.b = append(c.b, byte(units), byte(ticks/w.sp.tick()+100))
	}
}

func (c *code) readTime() decide.Time {
	units, ticks := c.next(), c.next()
	switch {
	case ticks < 255:
		return base + decide.Time(units)*decide.Time(c.sp.Unit.Microseconds()) + (decide.Time(ticks)-100)*c.sp.tick()
	case units == 0:
		return 0
	}
	return farOff
}

// fence writes a fence. Near the end of all fences it counts from the first one.
func (c *code) fence(f uint64) {
	if c.sp.First > 0 && f > 0 {
		f -= c.sp.First - 1
	}
	c.byte(byte(f))
}

func (c *code) readFence() uint64 {
	f := uint64(c.next())
	if c.sp.First > 0 && f > 0 {
		f += c.sp.First - 1
	}
	return f
}

func bits(all ...bool) (b byte) {
	for i, yes := range all {
		if yes {
			b |= 1 << i
		}
	}
	return b
}

// record writes everything about a token, apart from the names of other tokens.
func (w *world) record(i int, to []byte) []byte {
	c := code{w.sp, to}
	a := &w.l.tokens[i]
	h := decide.Hold{}
	n := slices.IndexFunc(w.s.Holds, func(h decide.Hold) bool { return h.Token == names[i] })
	if n >= 0 {
		h = w.s.Holds[n]
	}
	spent := decide.Time(0)
	for _, p := range w.s.Spent {
		if p.Token == names[i] {
			spent = p.Until
		}
	}
	taken := 0
	for _, t := range w.s.Taken {
		if t == names[i] {
			taken++
		}
	}
	waits, waitsShared := 0, false
	for n, p := range w.queue {
		if int(p.tok) == i {
			waits, waitsShared = n+1, p.shared
		}
	}
	c.byte(bits(n >= 0, h.Shared, h.Reserved, w.s.Intent.Token == names[i], int(w.l.wish) == i, waitsShared))
	c.byte(bits(a.shared, a.taken, a.risen, a.closed))
	c.byte(a.has)
	c.byte(byte(taken))
	c.byte(byte(waits))
	c.fence(h.Fence)
	c.fence(a.fence)
	c.time(w, h.Until)
	c.time(w, spent)
	c.time(w, a.end)
	c.time(w, a.spent)
	at := len(c.b)
	c.byte(0)
	for _, f := range w.flights {
		if int(f.tok) == i {
			c.b[at]++
			c.byte(byte(f.verb))
			c.fence(f.arg)
		}
	}
	return c.b
}

// text brings a world into the normal form, and writes it. order says which token came to each place.
func (w *world) text() (text string, order [maxTokens]int8) {
	w.s.Trim(w.present())
	w.l.tidy()
	w.normalTimes()
	w.normalFences()
	w.forget()
	slices.SortFunc(w.flights, func(a, b flight) int { return int(a.verb) - int(b.verb) })
	var records [maxTokens][]byte
	for i := range maxTokens {
		order[i] = int8(i)
		if i < w.sp.Tokens {
			records[i] = w.record(i, w.room.records[i][:0])
		}
	}
	slices.SortStableFunc(order[:w.sp.Tokens], func(a, b int8) int { return bytes.Compare(records[a], records[b]) })
	c := code{w.sp, w.room.text[:0]}
	c.fence(w.s.Fence)
	c.fence(w.l.top)
	c.time(w, w.s.Cool)
	c.time(w, w.s.Intent.Until)
	c.time(w, w.l.cool)
	c.time(w, w.l.wishEnd)
	for _, i := range order[:w.sp.Tokens] {
		c.b = append(c.b, records[i]...)
	}
	for _, i := range order[:w.sp.Tokens] {
		for _, f := range w.flights {
			if f.tok == i && f.verb == Replace {
				c.byte(byte(slices.Index(order[:], f.other)))
			}
		}
	}
	return string(c.b), order
}

// worldOf reads what text has written.
func worldOf(sp *Space, text string) *world {
	w := &world{sp: sp}
	c := code{sp, []byte(text)}
	w.s.Fence, w.l.top = c.readFence(), c.readFence()
	w.s.Cool, w.s.Intent.Until, w.l.cool, w.l.wishEnd = c.readTime(), c.readTime(), c.readTime(), c.readTime()
	w.l.now, w.l.wish, w.l.wall = base, -1, sp.wall()
	w.queue = make([]place, maxTokens)
	waiters := 0
	for i := range sp.Tokens {
		if n, p := w.readToken(i, &c); n > 0 {
			w.queue[n-1] = p
			waiters++
		}
	}
	w.queue = w.queue[:waiters]
	for i := range w.flights {
		if f := &w.flights[i]; f.verb == Replace {
			f.other = int8(c.next())
		}
	}
	return w
}

// readToken reads a record. n is the place of the token in the queue, or 0.
func (w *world) readToken(i int, c *code) (n int, p place) {
	flags, more := c.next(), c.next()
	a := &w.l.tokens[i]
	a.shared, a.taken, a.risen, a.closed = more&1 > 0, more&2 > 0, more&4 > 0, more&8 > 0
	a.has = c.next()
	for range c.next() {
		w.s.Taken = append(w.s.Taken, names[i])
	}
	n = int(c.next())
	h := decide.Hold{Token: names[i], Shared: flags&2 > 0, Reserved: flags&4 > 0, Since: base, Change: "mark", Holder: driver.Holder{PID: i + 1}}
	h.Fence, a.fence, h.Until = c.readFence(), c.readFence(), c.readTime()
	if flags&1 > 0 {
		w.s.Holds = append(w.s.Holds, h)
	}
	if flags&8 > 0 {
		w.s.Intent.Token = names[i]
	}
	if flags&16 > 0 {
		w.l.wish = int8(i)
	}
	if spent := c.readTime(); spent > 0 {
		w.s.Spent = append(w.s.Spent, decide.Spent{Token: names[i], Until: spent})
	}
	a.end, a.spent = c.readTime(), c.readTime()
	for range c.next() {
		f := flight{verb: Verb(c.next()), tok: int8(i)}
		f.arg = c.readFence()
		w.flights = append(w.flights, f)
	}
	return n, place{int8(i), flags&32 > 0}
}

// wall is the time that fences follow.
func (sp *Space) wall() uint64 {
	if sp.Behind {
		return 1
	}
	return 200 // above all fences of the normal form
}
