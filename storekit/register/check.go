package register

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// errCareless is the error of a service that does not know conditional writes, or does not carry
// them out in one step.
var errCareless = storekit.Invalidf("the service carries out a write whose condition is not met: it cannot keep locks")

// checkService checks the conditional writes of the service in several rounds, with so many Puts at
// once in each, and returns how many rounds the service has passed. If it has passed one, the end of
// limit is no error. The error is errCareless, driver.ErrInvalid if the register says so, or
// driver.ErrUnavailable.
func (s *Store) checkService(ctx context.Context, limit time.Duration, rounds, each int) (passed int, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for late := 0; passed < rounds; {
		var fresh bool
		if fresh, err = s.checkRound(limited, each); err == nil {
			if !fresh || s.opts.NoVersion == "" {
				passed++
			}
			continue
		}
		certain := errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain)
		if late++; certain || !storekit.Sleep(limited, mathrand.N(50*time.Millisecond<<min(late, 4))) {
			break // other processes may write the record just now, so a reply that says nothing is usual
		}
	}
	switch {
	case ctx.Err() != nil && err != nil && !errors.Is(err, errCareless):
		return passed, ctx.Err()
	case err == nil, errors.Is(err, driver.ErrInvalid):
		return passed, err
	case passed > 0 && limited.Err() != nil:
		return passed, nil
	}
	return passed, fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
}

// checkRound sends several Puts of the record of the store at once, all for the version that it
// has, of which the service may carry out one. With them it sends Puts whose conditions are never
// met. The record stays as it is, but for its number. If there was none, the result fresh is true.
func (s *Store) checkRound(ctx context.Context, each int) (fresh bool, err error) {
	v, err := s.r.Get(ctx, s.opts.key(""))
	switch {
	case err == nil && s.opts.NoVersion == "", errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnavailable):
		return false, err
	case err != nil:
		return false, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	w, err := s.decode("", v, s.local.Now())
	if err != nil {
		return false, err
	}
	never := []string{s.opts.NoVersion}
	if fresh = v.Version == ""; fresh {
		w.ID = rand.Text()
	} else {
		never = append(never, "")
	}
	versions := never
	for range each {
		versions = append(versions, v.Version)
	}
	errs := make([]error, len(versions))
	var all sync.WaitGroup
	for i, version := range versions {
		data, _, err := w.encode(s.opts.Clock.Observed)
		if err != nil {
			return fresh, err
		}
		all.Go(func() { errs[i] = s.r.Put(ctx, s.opts.key(""), data, version) })
	}
	all.Wait()
	return fresh, verdict(errs[:len(never)], errs[len(never):])
}

// verdict returns what the results of Puts show whose conditions are never met, and of Puts for one
// version. Of the latter, one certain result is enough: a service may take only so many at once.
func verdict(never, same []error) error {
	carriedOut := 0
	for _, err := range same {
		if err == nil {
			carriedOut++
		}
	}
	if slices.Contains(never, nil) || carriedOut > 1 {
		return errCareless
	}
	for _, err := range never {
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	for _, err := range same {
		if err == nil || errors.Is(err, ErrChanged) {
			return nil
		}
	}
	return same[0]
}
