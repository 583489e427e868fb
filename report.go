package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// Finding is one thing that Status found out about a server.
type Finding = driver.Finding

// Status asks the store what its server is found to be: version, uptime,
// persistence, … What could not be read has the value driver.Unknown. A store
// that has no server, or nothing to tell, answers errors.ErrUnsupported.
func (l *Locker) Status(ctx context.Context) ([]Finding, error) {
	r, ok := l.store.(driver.Reporter)
	if !ok {
		return nil, failed("status", "", errors.ErrUnsupported)
	}
	found, err := r.Status(ctx)
	if err != nil {
		return nil, failed("status", "", theirs(ctx, err))
	}
	return found, nil
}
