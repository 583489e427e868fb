package session

import (
	"context"
	"net/http"
)

// closeSession saves the session before the answer, even if the client has left. code is the status
// of the answer.
func (s *state) closeSession(ctx context.Context, h http.Header, code int) error {
	s.waits.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits.resume()
	s.dropCutOff(ctx, code)
	s.dropPanicked(ctx, code)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.waitBound()+saveTime)
	defer cancel()
	err := s.saveState(ctx)
	s.release(ctx) // saveState keeps the lock if a write was refused
	s.stage = begun
	s.setCookie(h)
	return err
}
