package sqlstore

import (
	"time"

	"github.com/padlock-go/padlock/storekit/decide"
)

// A release that hands a name over to another process can do a second thing in the same statement:
// it can take a place in the queue for the next waiter of its own process. The states of such a
// place:
//
//	state    meaning
//	asked    the statement was sent
//	taken    the place is in the queue, and its notifications arrive at takenPlace
//	waited   a call of Wait uses the place as its own; see the table in wait.go
//	dropped  the Store has forgotten the place
//
// The transitions:
//
//	from   to       when
//	asked  taken    the statement has made the place
//	asked  dropped  the statement has made no place, or its reply was lost
//	taken  waited   Wait is called with the same token
//	taken  dropped  Release is called with that token
//
// A dropped place may still be in the queue. Then the caller's Release removes it, or it lapses
// after placeFor.
//
// The Store registers the place for notifications before it sends the statement, so no notification
// comes too early. But notifications may be lost while the connection for notifications is opened
// or lost. If that has happened in the state "taken", or if there is no such connection any more,
// Wait looks at the name at once.
type takenPlace struct {
	*waiting
	remove   func()
	push     string    // the channel in the place
	switches uint64    // waits.switches before the statement was sent
	renew    time.Time // when the place has to be renewed
	ahead    int       // how many places were before it
	st       state     // the state after the release; only the fence and the reservation are set
	now      decide.Time
}

// keepPlace stores a place, which enters the state "taken". takePlace returns the place later.
func (w *waits) keepPlace(token string, p *takenPlace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken == nil {
		w.taken = map[string]*takenPlace{}
	}
	w.taken[token] = p
}

// hasPlace reports whether there is a place in the state "taken" for this token.
func (w *waits) hasPlace(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken[token] != nil
}

// takePlace returns the place that a release has made for the waiter with this token, and forgets
// it. From then on, the caller owns the place. takePlace returns nil if there is no such place.
func (w *waits) takePlace(token string) *takenPlace {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.taken[token]
	delete(w.taken, token)
	return p
}

// dropPlace forgets the place of a token.
func (w *waits) dropPlace(token string) {
	if p := w.takePlace(token); p != nil {
		p.remove()
	}
}
