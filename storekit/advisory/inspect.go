package advisory

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements a part of driver.Admin. It reports what the server knows about the holders.
func (s *Store[C]) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := CheckName(s, name); err != nil {
		return driver.State{}, err
	}
	return AskReady(ctx, s, func(c C) (driver.State, error) {
		st := driver.State{Name: name, Waiters: -1}
		var err error
		st.Holds, st.Fence, err = s.dialect.Holders(c, Lock{name, s.dialect.Key(name)})
		return st, err
	})
}

// List is the List of a store. The function read returns the states of the names with the prefix.
func List[C Session](ctx context.Context, s *Store[C], read func(c C) ([]driver.State, error)) ([]driver.State, error) {
	if !s.fences {
		return nil, fmt.Errorf("%w: the server knows hashes only, and without fences (fences=no) there is no table of names", errors.ErrUnsupported)
	}
	return AskReady(ctx, s, read)
}

// Break implements driver.Admin: no session can end the lock of another one.
func (s *Store[C]) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

// Location implements driver.Places. It returns what the server locks.
func (s *Store[C]) Location(name string) (string, error) {
	if err := CheckName(s, name); err != nil {
		return "", err
	}
	return s.dialect.Key(name), nil
}

// StoreID implements driver.Places: the server has no place for an id.
func (s *Store[C]) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// SamePlace implements driver.Places. It compares what the servers say of themselves if both are
// known, and otherwise how the stores reach them.
func (s *Store[C]) SamePlace(other driver.Store) bool {
	o, ok := other.(interface {
		place() (known string, way any)
	})
	if !ok {
		return false
	}
	known, way := s.place()
	itsKnown, itsWay := o.place()
	if known != "" && itsKnown != "" {
		return known == itsKnown
	}
	return way == itsWay
}

func (s *Store[C]) place() (known string, way any) { return s.dialect.Place() }
