package register

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Open makes a store of a register, and closes the register if there is an error. Unless the store
// is lazy, Open asks the service for something, so that wrong settings show at once. If
// Options.NoVersion is set, it checks that the service refuses a Put whose condition is not met, and
// that of two Puts of one version that are sent at once, at most one is carried out. That finds a
// service that knows no conditions, and most of the time one that checks a condition and writes
// later. Status sends more Puts at once, and several times. Open repeats a Put with an unknown
// outcome for storekit.Patience.
func Open(ctx context.Context, r Register, o Options, lazy bool) (*Store, error) {
	s := New(r, o)
	var err error
	switch {
	case o.Clock.Skew < 0 || o.Clock.Skew > maxSkew:
		err = storekit.Invalidf("skew: it is a duration from 0s to 1m")
	case o.MaxKey > 0 && len(o.Prefix) > o.MaxKey/2:
		err = storekit.Invalidf("the prefix is longer than %d bytes", o.MaxKey/2)
	case !lazy:
		_, err = s.checkService(ctx, storekit.Patience, 1, 2)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// CheckWrites checks the conditional writes of the service as Open does, in the given number of
// rounds, or until ctx ends, with so many Puts of one version at once in each. It returns how many
// rounds the service has passed. The error is driver.ErrInvalid if a Put was carried out although its
// condition was not met, and errors.ErrUnsupported without Options.NoVersion. It may run while others
// use the store, but they make it slower.
func (s *Store) CheckWrites(ctx context.Context, rounds, each int) (passed int, err error) {
	if s.opts.NoVersion == "" {
		return 0, errors.ErrUnsupported
	}
	limit := time.Hour
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	return s.checkService(context.WithoutCancel(ctx), limit, rounds, each)
}

// StoreID returns the number in the record of the store, and makes that record if there is none;
// see driver.Places. Once a day, it writes the record again: a rule of the service that deletes old
// values would end the id, and with it the use of all keys that were exported.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	c, err := s.begin(ctx, "")
	if err != nil {
		return "", err
	}
	w, err := c.get()
	if err != nil {
		return "", err
	}
	if id := w.ID; id != "" {
		c.rewrite(w)
		return id, nil
	}
	return change(c, func(w *view) (bool, string, error) {
		known := w.ID != ""
		if !known {
			w.ID = rand.Text()
		}
		return !known, w.ID, nil
	})
}

// rewrite writes the record of the store as it is, unless this process has done that within a day.
// The id is known without it, so an error is none of the caller's.
func (c *call) rewrite(w *view) {
	now := time.Now().Round(0) // the other clock of the process stands still while a machine sleeps
	c.mu.Lock()
	last := c.rewritten
	due := now.Sub(last) > 24*time.Hour
	if due {
		c.rewritten = now
	}
	c.mu.Unlock()
	if !due {
		return
	}
	data, _, err := w.encode(c.opts.Clock.Observed)
	if err == nil {
		_, err = c.put(data, w.version)
	}
	if err != nil && !errors.Is(err, ErrChanged) { // or somebody else has written it
		c.mu.Lock()
		c.rewritten = last
		c.mu.Unlock()
	}
}

// Location implements driver.Places.
func (s *Store) Location(name string) (string, error) { return name, driver.CheckName(name, &s.g) }

// SamePlace implements driver.Places: it compares Options.Where.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	return ok && s.opts.Where != "" && o.opts.Where == s.opts.Where && o.opts.Name == s.opts.Name
}

// Status asks the service how it is; see driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	if s.closed.Load() {
		return nil, driver.ErrClosed
	}
	const rounds, each = 12, 8
	conditions := driver.Finding{Name: "conditional-writes"}
	switch passed, err := s.checkService(ctx, storekit.Patience/2, rounds, each); {
	case errors.Is(err, errCareless):
		conditions.Value, conditions.Advice = "carried out although the condition is not met", "two processes can hold one lock: keep the locks in another service"
	case err != nil:
		return nil, err
	default:
		conditions.Value = fmt.Sprintf("refused if the condition is not met, also when %d were sent at once, %d times", each, passed)
	}
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience/2)
	defer cancel()
	var all []driver.Finding
	if s.opts.Where != "" {
		all = append(all, driver.Finding{Name: "place", Value: s.opts.Where})
	}
	if s.opts.NoVersion != "" {
		all = append(all, conditions)
	}
	if !s.opts.Clock.Observed {
		all = append(all, s.clock(ctx))
	}
	if r, ok := s.r.(driver.Reporter); ok {
		more, err := r.Status(ctx)
		return append(all, more...), err
	}
	return all, nil
}

// clock compares the clock of this machine with that of the service.
func (s *Store) clock(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "clock", Value: driver.Unknown}
	before := time.Now()
	v, err := s.r.Get(ctx, s.opts.key(""))
	if err != nil {
		return f
	}
	late, early := before.Sub(v.Now.Add(s.opts.Clock.Grain)), time.Until(v.Now)
	f.Value = "this machine agrees with the service"
	if off := max(late, early); off > time.Second {
		f.Value = "this machine differs from the service by " + off.Round(time.Second).String()
		f.Advice = "set this machine's clock: the locks do not depend on it, but many services refuse requests if it is off by some minutes"
	}
	return f
}
