package memstore

import (
	"context"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return driver.State{}, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.State{}, err
	}
	defer s.unlock()
	now := s.now()
	return s.known(name, now).report(name, now, time.Now()), nil
}

// List implements driver.Admin.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	now, wall := s.now(), time.Now() // read once for all names, so that Since shows who came first
	var out []driver.State
	for name, e := range s.entries {
		if strings.HasPrefix(name, prefix) && e.isBusy(now) {
			out = append(out, e.report(name, now, wall))
		}
	}
	return out, nil
}

func (e *entry) report(name string, now moment, wall time.Time) driver.State {
	state := e.Report(name, now.Now, wall)
	state.Waiters = len(e.queue)
	return state
}
