package padlock

import (
	"errors"
	"os"

	"github.com/padlock-go/padlock/driver"
)

// File returns a duplicate of the open file that carries the lock, to be given
// to a child process; the caller closes it. While any copy of it is open the
// name stays taken: beyond Release, and beyond the death of this process. A
// store whose locks are not bound to a file answers errors.ErrUnsupported.
func (h *hold) File() (*os.File, error) {
	p, ok := h.locker.store.(driver.FilePasser)
	if !ok {
		return nil, failed("pass", h.Name(), errors.ErrUnsupported)
	}
	if err := h.over(); err != nil {
		return nil, failed("pass", h.Name(), err)
	}
	h.locker.mu.Lock()
	h.locker.apart(h, true)
	h.locker.unlock()
	f, err := p.File(h.Name(), h.token)
	if err != nil {
		return nil, failed("pass", h.Name(), err)
	}
	return f, nil
}
