package filestore

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// Status implements driver.Reporter. It reports whether waiters stand in the kernel's queue.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	f := driver.Finding{Name: "waiting", Value: "in about the order of arrival"}
	if !s.guarantees.FIFO {
		f.Value = "the waiter that looks first"
	}
	return []driver.Finding{f}, nil
}
