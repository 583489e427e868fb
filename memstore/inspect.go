package memstore

import (
	"context"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements driver.Inspector.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &guarantees); err != nil {
		return driver.State{}, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.State{}, err
	}
	defer s.unlock()
	if e := s.entries[name]; e != nil {
		return e.state(s.clock.Now()), nil
	}
	return driver.State{Name: name}, nil
}

// List implements driver.Lister.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	now := s.clock.Now()
	var out []driver.State
	for name, e := range s.entries {
		if strings.HasPrefix(name, prefix) && e.isBusy(now) {
			out = append(out, e.state(now))
		}
	}
	return out, nil
}
