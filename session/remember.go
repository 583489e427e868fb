package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/session/sessionstore"
)

// SetDeadline makes this session end at t, instead of at the end of its Lifetime. IdleTimeout may
// end it earlier. The change is saved with the other writes of the request.
func (s *Session) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.IsZero() {
		return s.refuse(errors.New("session: SetDeadline: the time is zero"))
	}
	if err := s.beginUse(s.ctx, true); err != nil {
		return err
	}
	return s.setEnd(t)
}

// Remember makes this session live for d from now, even if nobody uses it: "remember me". Neither
// Lifetime nor IdleTimeout ends it earlier. The browser keeps the cookie for as long, even if the
// user closes the browser. Remember(0) takes that back: IdleTimeout counts again, and the browser
// deletes the cookie when it is closed, unless Cookie.Persist is set. The deadline stays. The
// change is saved with the other writes of the request. If another request has given the session a
// new id, this request sends no cookie, so the browser learns the age of its cookie from a later
// Remember.
func (s *Session) Remember(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(s.ctx, true); err != nil {
		return err
	}
	if d < 0 {
		return s.refuse(fmt.Errorf("session: Remember: %v is negative", d))
	}
	s.newCookie = true
	if d == 0 {
		s.life.remembered = false
		return s.plan(s.ctx, sessionstore.Op{Kind: sessionstore.OpDelete, Key: rememberKey})
	}
	if err := s.setEnd(time.Now().Add(d)); err != nil {
		return err
	}
	s.life.remembered = true
	return s.putOwn(s.ctx, rememberKey, 1)
}

// Deadline returns when the session ends, even if it is in use. The result is zero if there is no
// session yet, or if the session has no such end.
func (s *Session) Deadline() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.beginUse(s.ctx, false)
	return s.life.deadline, err
}

func (s *Session) setEnd(t time.Time) error {
	s.life.deadline = t.Truncate(time.Millisecond)
	return s.putOwn(s.ctx, endKey, s.life.deadline.UnixMilli())
}
