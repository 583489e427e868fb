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
	if e := s.entries[name]; e != nil {
		return e.state(s.clock.Now(), time.Now()), nil
	}
	return driver.State{Name: name}, nil
}

// List implements driver.Admin.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	now, wall := s.clock.Now(), time.Now() // read once for all names, so that Since shows who came first
	var out []driver.State
	for name, e := range s.entries {
		if strings.HasPrefix(name, prefix) && e.isBusy(now) {
			out = append(out, e.state(now, wall))
		}
	}
	return out, nil
}
