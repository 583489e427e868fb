package session

import "context"

// Abandon gives up the session for this request. Writes that are not saved yet are dropped,
// failures of the session no longer replace the answer, and the lock is released. The stored
// session stays as it is.
func (s *Session) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.abandoned = ordered[Op]{}, true
	s.release(s.ctx)
}

// drop ends the request's use of the session without saving anything.
func (s *state) drop(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.stage = ordered[Op]{}, begun
	s.release(ctx)
}
