package sqlstore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A process that has just handed a name over to another process, and wants the name again, takes a
// place in the queue without a try. This saves one of four statements for each lock. These are the
// states of a name in a Store:
//
//	state   when a name enters it                    JoinFirst  it leaves the state
//	unseen  at first, and when it leaves the other   false      when a release hands the name over to a
//	        state                                               waiter of another process
//	handed  a release has handed the name over to a  true       when handedFor is over; when a waiter
//	        waiter of another process                           has taken the name at its first look
//
// A name enters the state handed only on PostgreSQL, because only the statement handOver of
// contended.go tells which waiter has got the name. JoinFirst is false for every name while no
// notifications arrive, so that a server that is out of reach is found by the try, which fails at
// once. If the name is free after all, Wait takes it, with two statements more than the place.

const handedFor = time.Second // how long a name stays in the state handed

var _ driver.QueueAdviser = (*Store)(nil)

// JoinFirst implements driver.QueueAdviser.
func (s *Store) JoinFirst(name string) bool { return s.waits.pushed() != "" && s.handed.has(name) }

// noteHanded records that a release has handed a name over to a waiter.
func (s *Store) noteHanded(name string, to address) {
	if s.waits.waiter(to.token.hash()) == nil {
		s.handed.note(name, handedFor)
	}
}
