package holder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A key says everything that decides what can come next. Times count from now, fences have ranks,
// and tokens have numbers in the order in which they are met.
type key struct {
	strings.Builder
	now    driver.Instant
	fences []uint64
	tokens map[string]int
}

func (k *key) add(s string) { k.WriteString(s); k.WriteByte(';') }

func (k *key) instant(i driver.Instant) string {
	switch {
	case i == 0:
		return "0"
	case i == 1<<63-1:
		return "far"
	}
	return fmt.Sprint(max(0, i.Sub(k.now)))
}

func (k *key) fence(f uint64) string {
	i, _ := slices.BinarySearch(k.fences, f)
	return fmt.Sprint("f", i)
}

func (k *key) token(t string) string {
	if k.tokens[t] == 0 {
		k.tokens[t] = len(k.tokens) + 1
	}
	return fmt.Sprint("t", k.tokens[t])
}

// key returns the state as text; see docs/internals/every-order.md. If both callers may do the same,
// it does not say which of them is which.
func (w *world) key() string {
	key := w.keyOf(w.callers)
	c := w.callers
	switch {
	case w.space.askers == 2:
		return min(key, w.keyOf([]*caller{c[0], c[2], c[1]}))
	case w.space.acquires[0] == w.space.acquires[1]:
		return min(key, w.keyOf([]*caller{c[1], c[0]}))
	}
	return key
}

func (w *world) keyOf(callers []*caller) string {
	k := &key{now: w.callers[0].clock.Now(), tokens: map[string]int{}}
	for _, state := range w.names {
		k.fences = append(k.fences, state.Fence, w.fence[state.name])
		for _, h := range state.Holds {
			k.fences = append(k.fences, h.Fence, w.askers[h.Token])
		}
	}
	for _, r := range w.requests {
		k.fences = append(k.fences, r.result.grant.Fence, r.seen, w.askers[r.token])
		for _, part := range r.parts {
			k.fences = append(k.fences, part.result.grant.Fence)
		}
	}
	for _, a := range w.asks {
		k.fences = append(k.fences, a.seen, a.promised)
	}
	for _, c := range w.callers {
		if c.lock != nil {
			k.fences = append(k.fences, c.lock.Fence())
		}
	}
	slices.Sort(k.fences)
	k.fences = slices.Compact(k.fences)
	k.add(fmt.Sprint(w.faults))
	for _, state := range w.names {
		k.add(fmt.Sprint(k.fence(w.fence[state.name]), k.fence(state.Fence)))
	}
	for _, c := range callers {
		if w.space.own {
			k.token(ownToken(c.name)) // it will be sent again
		}
		c.key(k)
	}
	for _, state := range w.names {
		w.storeKey(k, state)
	}
	return k.String()
}

// key writes the state of c, what is under way for it, and the facts that the judge knows.
func (c *caller) key(k *key) {
	w := c.w
	c.requestsKey(k)
	if w.space.askers > 0 {
		c.askKey(k)
	}
	if c.call == opRelease && w.space.batch {
		k.add(fmt.Sprint(max(c.begun-w.at(), -time.Second)))
	}
	k.add(fmt.Sprint(c.acquires, c.asks, c.exported, c.unsure, c.ctx == nil, max(c.keptUntil-w.at(), 0), c.call, c.once, c.cancelled, c.closing, len(c.closed)))
	if c.lock != nil {
		f := w.facts[c.token]
		k.add(holdKey(k, c.lock.hold))
		k.add(fmt.Sprint(c.over, max(f.usable()-w.at(), 0), max(c.most-w.at(), 0), f.tried > 0, f.trying, f.cut, f.lossTold, f.released, f.replied, f.keep))
		switch {
		case c.over:
		case f.trying:
			k.add(fmt.Sprint("trying", f.tried-w.at()))
		case f.tried > 0:
			k.add(fmt.Sprint("failed", f.failed-w.at()))
		default:
			k.add(fmt.Sprint("planned", max(f.planned-w.at(), 0)))
		}
		if op := askedBy[c.call]; op != "" {
			k.add(fmt.Sprint("asked", class(f.asked[op]), class(f.asked[opCheck]), c.overAtCall, max(f.demoting-w.at(), 0)))
		}
	}
	c.face.key(k)
	for _, t := range c.clock.running() {
		k.add(fmt.Sprint(t.at.Sub(k.now), t.who))
	}
	k.add(fmt.Sprint(c.clock.isArmed(c.face.due())))
	var logged []string
	for t, f := range w.facts {
		if f.who == c.who && len(f.log) > 0 {
			logged = append(logged, t)
		}
	}
	slices.SortFunc(logged, func(a, b string) int { return w.tokens[a] - w.tokens[b] })
	for _, t := range logged {
		f := w.facts[t]
		k.add(fmt.Sprint(k.token(t), string(f.log), f.released, f.late, f.releasing))
		if f.cleaned > 0 && c.face.open() > 0 {
			k.add(fmt.Sprint("cleaned", max(f.cleaned-w.at(), -time.Second/2)))
		}
	}
}

// requestsKey writes what is under way for c.
func (c *caller) requestsKey(k *key) {
	w := c.w
	for _, r := range w.sorted() {
		if r.who != c.who {
			continue
		}
		k.add(fmt.Sprint("r", r.op, k.token(r.token), r.cleanUp, r.applied, r.left, r.sent-w.at(), max(r.deadline-w.at(), 0), r.ttl, r.keep))
		if r.applied {
			for _, part := range r.each() {
				a := &part.result
				k.add(fmt.Sprint(class(a.err), a.outcome, k.fence(a.grant.Fence), a.grant.TTL))
			}
		}
		for _, part := range r.parts {
			k.add(fmt.Sprint(part.name, k.token(part.token)))
		}
		if r.isAsk() {
			k.add(fmt.Sprint(r.name, k.fence(r.seen), k.fence(w.askers[r.token])))
		}
	}
}

// storeKey writes the state of the name. What a token had that nobody sends any more says nothing.
func (w *world) storeKey(k *key, state *named) {
	now := w.now()
	for _, h := range state.Holds {
		left := max(h.Until-now.At, 0)
		f := w.facts[h.Token]
		k.add(fmt.Sprint("h", k.token(h.Token), h.Shared, h.Reserved, k.fence(h.Fence), left, f != nil && f.late, k.fence(w.askers[h.Token])))
	}
	k.add(fmt.Sprint("cool", max(state.Cool-now.At, 0)))
	if i := state.Intent; i.Until > now.At && state.Live(i.Token, now) != nil {
		k.add(fmt.Sprint("intent", k.token(i.Token), i.Until-now.At))
	}
	var old []string
	for _, t := range state.Taken {
		if k.tokens[t] > 0 {
			old = append(old, "taken"+k.token(t))
		}
	}
	for _, p := range state.Spent {
		if k.tokens[p.Token] > 0 && p.Until > now.At {
			old = append(old, fmt.Sprint("spent", k.token(p.Token), p.Until-now.At))
		}
	}
	slices.Sort(old)
	k.add(strings.Join(old, ","))
}
