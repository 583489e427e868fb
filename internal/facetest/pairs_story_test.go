package facetest

import (
	"context"

	"github.com/padlock-go/padlock"
)

// story has the events of one acquire and its lock.
type story struct {
	began, contended, refused, acquired bool
	ended, released                     bool
	uncertain, cleaned                  int
}

// Observe checks that the events of one acquire and its lock come in the order that
// padlock.EventKind describes.
func (x *pairModel) Observe(ctx context.Context, e padlock.Event) {
	u, _ := ctx.Value(useKey{}).(*use)
	if u == nil {
		x.report("event %v of %q has no context", e.Kind, e.Name)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := u.stories[e.Name]
	if s == nil {
		s = &story{}
		u.stories[e.Name] = s
	}
	before := *s
	if !s.tell(e) {
		x.report("call %d (%v): event %v (%v, %v) of %q after %+v", u.id, u.features, e.Kind, e.Outcome, e.Err, e.Name, before)
	}
}

// tell adds an event to the story. It returns false if the event may not come now.
func (s *story) tell(e padlock.Event) bool {
	held := s.acquired && !s.ended
	switch e.Kind {
	case padlock.EventAcquiring:
		s.began, held = true, !s.began
	case padlock.EventContended:
		held = s.began && !s.contended && !s.refused && !s.acquired
		s.contended = true
	case padlock.EventAcquired:
		held = s.began && !s.refused && !s.acquired
		s.acquired = true
	case padlock.EventRefused:
		held = s.began && !s.refused && !s.acquired
		s.refused = true
	case padlock.EventLost, padlock.EventEnded, padlock.EventReleasing:
		s.ended = true
	case padlock.EventReleased:
		held = s.ended && !s.released
		s.released = true
	case padlock.EventConverted:
		held = held || s.acquired && e.Err != nil
	case padlock.EventUncertain:
		held = s.began
		s.uncertain++
	case padlock.EventCleaned, padlock.EventDropped:
		s.cleaned++
		held = s.cleaned <= s.uncertain
	case padlock.EventForgotten:
		held = false
	}
	return held
}

// checkTold checks what the observer must know when a call has returned.
func (x *pairModel) checkTold(u *use, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if u.waits = false; u.p.features&useObserver == 0 {
		return
	}
	for _, name := range u.names {
		s := u.stories[name]
		if s == nil {
			if err == nil {
				x.report("call %d (%v): there is no event of %q", u.id, u.features, name)
			}
			continue
		}
		if s.acquired == s.refused {
			x.report("call %d (%v) has returned %v, and the observer knows only %+v of %q", u.id, u.features, err, *s, name)
		}
	}
}

// checkEnded checks that every story has an end.
func (x *pairModel) checkEnded(u *use) {
	for name, s := range u.stories {
		if s.acquired != s.ended || s.uncertain != s.cleaned {
			x.report("call %d (%v): the events of %q do not end: %+v", u.id, u.features, name, *s)
		}
	}
}
