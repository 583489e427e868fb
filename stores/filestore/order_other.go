//go:build !linux

package filestore

import "time"

// Tickets need named FIFOs. This system has none, or Go does not poll them here. So no waiter has a
// ticket.
type (
	order       struct{ pipe noPipe }
	noPipe      struct{}
	ticket      struct{ queue *ticketQueue }
	ticketQueue struct{}
)

const ticketHead = headMax

func inOrder(*config, string) bool { return false }

func (noPipe) close() {}

func (order) trouble(*Store) (int, time.Time, error) { return 0, time.Time{}, nil }

func (*file) dropQueue() {}

func (*Store) enlist(*file, *waiter) error { return nil }

func (*Store) hasNewerQueue(*conn, []byte) bool { return false }

func (*Store) delist(*waiter, bool) {}

func (*Store) stale(*file, *waiter) bool { return false }

func (*Store) position(*waiter) int { return 0 }

func (*Store) yield(*file, *conn, bool, []byte) *refusal { return nil }

func (*waiter) noteHeld() {}

func (*Store) noteFree(*file, *conn, int64) {}

func (*Store) wakeNext(*file, *conn, bool) {}

func (*Store) waiting(*conn) int { return -1 }

func (*Store) someoneWaits(*file) bool { return false }
