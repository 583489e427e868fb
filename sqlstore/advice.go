package sqlstore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A process that has just handed a name over to another process may want the name again. Then it
// takes a place in the queue without trying to acquire the name first. This saves one of four
// statements for each lock. Each name in a Store has one of two states:
//
//	state   JoinFirst  meaning
//	handed  true       a release has handed the name over to a waiter of another process
//	unseen  false      all other names
//
// A name leaves the state "handed" after handedFor, or when a waiter takes the name at its first
// look.
//
// Only on PostgreSQL does a name enter the state "handed", because only the statement handOver in
// contended.go tells which waiter has got the name. While no notifications arrive, JoinFirst is
// false for every name. The caller then tries to acquire the name. If the server cannot be reached,
// this try fails at once. JoinFirst may also be true for a name that is free. Then Wait acquires
// the name, with two statements more than for a place in the queue.

const handedFor = time.Second // how long a name stays in the state "handed"

var _ driver.QueueAdviser = (*Store)(nil)

// JoinFirst implements driver.QueueAdviser.
func (s *Store) JoinFirst(name string) bool {
	return s.waits.pushChannel() != "" && s.handed.isRecent(name)
}

// noteHanded records that a release has handed a name over to a waiter.
func (s *Store) noteHanded(name string, to address) {
	if s.waits.waiter(to.token.hash()) == nil {
		s.handed.note(name, handedFor)
	}
}
