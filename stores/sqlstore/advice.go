package sqlstore

import "time"

// A process that has just handed a name over to another process may soon want the name again. If it
// tries to acquire the name, it will probably find that the name is taken. So the store advises the
// caller to join the queue at once, which saves a statement. For this advice, each name in a Store
// is in one of two states:
//
//	state   JoinFirst  meaning
//	handed  true       a release has handed the name over to a waiter of another process
//	unseen  false      there was no such hand-over
//
// A name leaves the state "handed" after handedFor, or when a waiter takes the name at its first
// look.
//
// The advice may be wrong, because the name may be free by now. Then Wait acquires the name instead
// of joining the queue. That costs two statements more than a try would.
//
// Names enter the state "handed" only on PostgreSQL. There the statement handOver (contended.go)
// returns which waiter has got the name. While no notifications arrive, JoinFirst returns false for
// every name. The caller then tries to acquire the name, and this try fails at once if the server
// cannot be reached.

const handedFor = time.Second // how long a name stays in the state "handed"

// JoinFirst implements driver.Waiter.
func (s *Store) JoinFirst(name string) bool {
	return s.waits.pushChannel() != "" && s.handed.isRecent(name)
}

// noteHanded records that a release has handed a name over to a waiter.
func (s *Store) noteHanded(name string, to address) {
	if s.waits.waiter(to.token.hash()) == nil {
		s.handed.note(name, handedFor)
	}
}
