package sqlstore

import "time"

// A release that hands a name over to another process can also take a place in the queue for the
// next waiter of its own process, in the same statement. The Store distinguishes these states of
// such a place:
//
//	state    meaning                               the next state
//	asked    the statement was sent                taken, if the statement made the place; dropped, if
//	                                               it did not, or if its reply was lost
//	taken    the place is in the queue, and its    waited, by Wait with the same token; dropped, by
//	         notifications arrive at takenPlace    Release with that token
//	waited   a call of Wait uses the place as its  see the table in wait.go
//	         own
//	dropped  the Store has forgotten the place     (none)
//
// A dropped place may still be in the queue. Then the caller's Release removes it, or it lapses
// after placeFor.
//
// The place is registered for notifications before the statement is sent. So each notification for
// the place finds the place. But notifications may be lost while the connection for notifications
// is opened or lost. If that has happened in the state "taken", or if there is no such connection
// any more, Wait looks at the name at once.
type takenPlace struct {
	*waiting
	remove   func()
	push     string    // the channel in the place
	switches uint64    // waits.switches before the statement was sent
	renew    time.Time // when the place has to be renewed
	ahead    int       // how many places were before it
	st       state     // the name after the release; only the fence and the reservation are set
	now      micros
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
