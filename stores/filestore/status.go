package filestore

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Status implements driver.Reporter. It reports whether waiters get the lock in the order of their
// arrival. Waiters need tickets for that. If they cannot get tickets, for example because the disk
// is full, the waiter that looks at the lock first gets it.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	f := driver.Finding{Name: "waiting", Value: "in order of arrival"}
	if !s.guarantees.FIFO {
		f.Value = "the waiter that looks first"
		return []driver.Finding{f}, nil
	}
	failures, since, err := s.order.trouble(s)
	if err != nil {
		f.Value = "the waiter that looks first: " + err.Error()
		f.Advice = advise(s.dir, err)
		if failures > 0 {
			f.Value = fmt.Sprintf("%s (%d times, last at %s)", f.Value, failures, since.Format(time.DateTime))
		}
	}
	return []driver.Finding{f}, nil
}
