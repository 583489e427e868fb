package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// SetDeadline makes this session end at t, instead of at the end of its Lifetime. IdleTimeout may
// end it earlier. The change is saved with the other writes of the request.
func (h *Session) SetDeadline(t time.Time) error {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.IsZero() {
		return s.refuse(errors.New("session: SetDeadline: the time is zero"))
	}
	if err := s.beginUse(ctx, true, ""); err != nil {
		return err
	}
	return s.setEnd(ctx, t)
}

// Remember makes this session live for d from now, even if nobody uses it: "remember me". Neither
// Lifetime nor IdleTimeout ends it earlier. The browser keeps the cookie for as long, even if the
// user closes the browser. Remember(0) takes that back: IdleTimeout counts again, and the browser
// deletes the cookie when it is closed, unless Cookie.Persist is set. The deadline stays. The
// change is saved with the other writes of the request. If another request has given the session a
// new id, this request sends no cookie, so the browser learns the age of its cookie from a later
// Remember.
func (h *Session) Remember(d time.Duration) error {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, true, ""); err != nil {
		return err
	}
	if d < 0 {
		return s.refuse(fmt.Errorf("session: Remember: %v is negative", d))
	}
	s.newCookie = true
	if d == 0 {
		s.life.remembered = false
		return s.plan(ctx, sessionstore.Op{Kind: sessionstore.OpDelete, Key: rememberKey})
	}
	if err := s.setEnd(ctx, time.Now().Add(d)); err != nil {
		return err
	}
	s.life.remembered = true
	return s.putOwn(ctx, rememberKey, 1)
}

// Deadline returns when the session ends, even if it is in use. The result is zero if there is no
// session yet, or if the session has no such end.
func (h *Session) Deadline() (time.Time, error) {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.beginUse(ctx, false, "")
	return s.life.deadline, err
}

func (s *state) setEnd(ctx context.Context, t time.Time) error {
	s.life.deadline = t.Truncate(time.Millisecond)
	return s.putOwn(ctx, endKey, s.life.deadline.UnixMilli())
}
