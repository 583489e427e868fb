// Package store explores every order of events at one name of a store that decides with package
// storekit/decide. Callers send requests, which arrive at once, late, twice or never, and the clock
// moves to each edge of a lease and one tick beside it. A ledger, which is kept by the rules of package
// driver alone, says what each answer has to be. docs/internals/every-order.md has the bounds.
package store

import (
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A Space is one bounded search. All its times are multiples of Unit, plus or minus a few ticks.
type Space struct {
	Name      string
	Tokens    int // requests of so many callers, each with one token; a token that nothing remembers is new again
	Flights   int // requests that are under way at once, behind those that arrive at once
	Unit      time.Duration
	TTL, Keep time.Duration
	Verbs     []Verb // what callers ask for
	Late      []Verb // what may also stay under way, arrive late or twice, or be lost
	Behind    bool   // the clock is behind the fences, so each new fence is the last one plus one
	Queue     bool   // the store has a queue, and hands the name over by a reservation
	First     uint64 // the fence of the name at the beginning
	Millis    bool   // a tick is 1 ms, as in Redis, and not 1 µs
}

// base is the time of every state: what is later than now is later than base.
const base = decide.Time(4_000_000_000_000_000)

// tick is the resolution of time.
func (sp *Space) tick() decide.Time {
	if sp.Millis {
		return 1000
	}
	return 1
}

// A flight is a request that is under way.
type flight struct {
	verb       Verb
	tok, other int8
	arg        uint64 // a fence, for some verbs
}

// A place is a waiter in the queue.
type place struct {
	tok    int8
	shared bool
}

// A world is a name in its store, the requests that are under way, and what the callers know.
type world struct {
	sp      *Space
	s       decide.State
	l       ledger
	flights []flight
	queue   []place
	got     Answer          // of the last request
	answer  string          // the same for a person, if tell is set
	is      [maxTokens]int8 // what a story calls each token
	tell    bool
	room    room
}

// room is for the lists and the text of a world, so that a copy of it needs no memory.
type room struct {
	holds   [maxTokens + 1]decide.Hold
	taken   [maxTokens + 1]string
	spent   [maxTokens + 1]decide.Spent
	flights [4]flight
	queue   [maxTokens]place
	records [maxTokens][48]byte
	text    [160]byte
}

var names = [maxTokens]string{"A", "B", "C", "D"}

// copyTo makes c the same as w.
func (w *world) copyTo(c *world) {
	c.sp, c.s, c.l, c.is, c.tell, c.answer, c.got = w.sp, w.s, w.l, w.is, w.tell, "", Answer{}
	c.s.Holds = append(c.room.holds[:0], w.s.Holds...)
	c.s.Taken = append(c.room.taken[:0], w.s.Taken...)
	c.s.Spent = append(c.room.spent[:0], w.s.Spent...)
	c.flights = append(c.room.flights[:0], w.flights...)
	c.queue = append(c.room.queue[:0], w.queue...)
}

func (w *world) present() decide.Now { return decide.Now{At: w.l.now, Wall: int64(w.l.wall)} }

// An Answer is what a store says to a request.
type Answer struct {
	Err     error
	Outcome driver.Outcome // of Release
	Fence   uint64         // 0 if the answer has none
	Until   decide.Time    // when the lease ends, or 0
	Shared  bool
}

func answerOf(h *decide.Hold, err error) Answer {
	if err != nil {
		return Answer{Err: err}
	}
	return Answer{Fence: h.Fence, Until: h.Until, Shared: h.Shared}
}
