package padlock

import "runtime"

// handle is what the caller gets. The Locker keeps the hold itself to renew it,
// so only a handle apart from it shows that the caller has let go. That takes an
// allocation and work for the collector, and is done if there is somebody to
// tell.
func handle(h *hold, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	if h.locker.watched {
		return h.watchedHandle(), nil
	}
	h.self.hold = h
	return &h.self, nil
}

// watchedHandle is apart so that handle is small enough to be inlined.
func (h *hold) watchedHandle() *Lock {
	lock := &Lock{h}
	runtime.AddCleanup(lock, (*hold).forgotten, h)
	return lock
}

// forgotten is called when the caller's handle has been collected, which may be
// while the Release that was its last use is under way.
func (h *hold) forgotten() {
	l := h.locker
	l.mu.Lock()
	defer l.unlock()
	if h.cause == nil && h.released.Load() == nil && !h.exported && !l.closed {
		l.event(EventForgotten, h, nil)
	}
}
