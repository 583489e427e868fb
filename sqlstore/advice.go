package sqlstore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A process that has just handed a name over to another process, and wants the name again, takes a
// place in the queue without trying to acquire the name first. This saves one of four statements
// for each lock. A name in a Store has one of two states:
//
//	state   a name enters it when                    JoinFirst  a name leaves it when
//	unseen  the Store is opened, or the name leaves  false      a release hands the name over to a
//	        the other state                                     waiter of another process
//	handed  a release has handed the name over to a  true       handedFor is over, or a waiter has
//	        waiter of another process                           taken the name at its first look
//
// Only on PostgreSQL does a name enter the state "handed", because only the statement handOver in
// contended.go tells which waiter has got the name. While no notifications arrive, JoinFirst is
// false for every name. The caller then tries to acquire the name, and if the server cannot be
// reached, that fails at once. If JoinFirst is true but the name is free after all, Wait acquires
// the name, which takes two statements more than to take a place.

const handedFor = time.Second // how long a name stays in the state "handed"

var _ driver.QueueAdviser = (*Store)(nil)

// JoinFirst implements driver.QueueAdviser.
func (s *Store) JoinFirst(name string) bool { return s.waits.pushed() != "" && s.handed.has(name) }

// noteHanded records that a release has handed a name over to a waiter.
func (s *Store) noteHanded(name string, to address) {
	if s.waits.waiter(to.token.hash()) == nil {
		s.handed.note(name, handedFor)
	}
}
