package advisory

import (
	"context"

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
