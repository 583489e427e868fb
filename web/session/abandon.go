package session

import (
	"context"
	"errors"
	"fmt"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"net/http"
	"runtime"

	"github.com/padlock-go/padlock/web/internal/ordered"
)

// Abandon gives up the session for this request. Writes that are not saved yet are dropped,
// failures of the session no longer replace the answer, and the lock is released. The stored
// session stays as it is.
func (h *Session) Abandon() {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = ordered.Map[sessionstore.Op]{}
	s.Trouble.Abandon()
	s.release(ctx)
}

// drop ends the request's use of the session without saving anything.
func (s *state) drop(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.stage = ordered.Map[sessionstore.Op]{}, begun
	s.release(ctx)
}

// dropCutOff drops the unsaved writes if http.TimeoutHandler has cut off the handler. The handler
// still runs, and may have made only some of its writes. The caller holds s.mu.
//
// dropCutOff is called before the answer begins, with the status of the answer. requestCtx is the
// context of the request. http.TimeoutHandler gives the handler another context. When that context
// ends, by timeout or because the client has left, the status is 503.
func (s *state) dropCutOff(requestCtx context.Context, code int) {
	if code != http.StatusServiceUnavailable || s.pending.Len() == 0 || s.wroteWith.Err() == nil {
		return
	}
	end, ok := s.wroteWith.Deadline()
	if last, bounded := requestCtx.Deadline(); !ok || bounded && !end.Before(last) {
		return // the handler has the context of the request: there is no http.TimeoutHandler
	}
	if errors.Is(s.wroteWith.Err(), context.DeadlineExceeded) || requestCtx.Err() != nil {
		s.pending = ordered.Map[sessionstore.Op]{}
		s.event(requestCtx, Event{Kind: EventFailed, Err: fmt.Errorf("%w: the answer began before the handler had ended", context.Cause(s.wroteWith))})
	}
}

// errPanicked is the error of the event that reports dropped writes.
var errPanicked = errors.New("the handler panicked")

// dropPanicked drops the unsaved writes if a deferred function sends the answer of a handler that
// has panicked. So it does not matter whether the handler that recovers is inside or outside of the
// session. The caller holds s.mu.
func (s *state) dropPanicked(ctx context.Context, code int) {
	if code >= http.StatusInternalServerError && s.pending.Len() > 0 && panicking() {
		s.pending = ordered.Map[sessionstore.Op]{}
		s.event(ctx, Event{Kind: EventFailed, Err: errPanicked})
	}
}

// panicking reports whether a deferred function that runs because of a panic has called this
// function. The runtime keeps the frame of the panic on the stack until the deferred function
// returns, even after the function recover was called.
func panicking() bool {
	pcs := make([]uintptr, 64)
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Function == "runtime.gopanic" {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
