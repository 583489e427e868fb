package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in a memcached server. It is safe for concurrent use. It has one connection,
// which all callers share.
type Store struct {
	config
	guarantees driver.Guarantees
	client     *client
}

var _ interface {
	driver.Store
	driver.Admin
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Open connects to the server of c and checks that it can keep locks: memcached 1.6 or newer. ctx
// bounds the opening only. With Lazy, Open does not connect.
//
// Open returns driver.ErrInvalid if settings are wrong, and driver.ErrUnavailable if the server
// cannot be reached or is too old.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	var set config
	storekit.Apply(&set, opts)
	if err := errors.Join(c.check(), set.check()); err != nil {
		return nil, err
	}
	s := &Store{config: set, guarantees: set.guarantees(), client: newClient(c)}
	if set.lazy {
		return s, ctx.Err()
	}
	if err := s.probe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// probe sends the meta command mn, which does nothing, to see whether the server answers.
func (s *Store) probe(ctx context.Context) error {
	r, err := s.client.roundTrip(ctx, []byte("mn\r\n"))
	if err == nil && r.word != "MN" {
		err = refusal(r)
	}
	if err != nil {
		return failure(ctx, err, false)
	}
	return nil
}

// Guarantees implements driver.Store; docs/stores/memcached.md explains the promises.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

// Close closes the connection. Holds stay until their leases end.
func (s *Store) Close() error {
	s.client.close()
	return nil
}

// rounds is how often a call tries to replace a value that other clients keep changing.
const rounds = 8

var errRestless = fmt.Errorf("%w: others change the lock all the time", driver.ErrUnavailable)

// Acquire implements driver.Store. A free name costs one request, and a held name costs two.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if r.Shared {
		return driver.Grant{}, fmt.Errorf("shared locks in memcached: %w", errors.ErrUnsupported)
	}
	k, g := s.keyFor(r.Name), driver.Grant{TTL: r.TTL}
	for range rounds {
		if r.Replaces.Text() == "" {
			if added, err := s.add(ctx, k, newNote(&r)); added || err != nil {
				return grantIf(added, g), err
			}
		}
		old, err := s.read(ctx, k)
		if err != nil {
			return driver.Grant{}, err
		}
		if old == nil && r.Replaces.Text() == "" {
			continue // the name became free between the two requests
		}
		next, err := s.nextValue(old, &r)
		if err != nil {
			return driver.Grant{}, err
		}
		if swapped, err := s.swap(ctx, k, old, next); swapped || err != nil {
			return grantIf(swapped, g), err
		}
	}
	return driver.Grant{}, errRestless
}

func grantIf(yes bool, g driver.Grant) driver.Grant {
	if !yes {
		return driver.Grant{}
	}
	return g
}

// newNote returns the value of a new hold.
func newNote(r *driver.Request) *note {
	return &note{Token: r.Token.Text(), Holder: r.Holder, Life: lifeFor(r.TTL)}
}

// nextValue returns the value by which Acquire replaces the current value of a name. It returns an
// error if the current value has to stay.
//
//	the current value         result
//	has the token r.Token     a value for the same hold, with a full lease
//	has the token r.Replaces  a value for a new hold
//	has another or no token   driver.ErrLost if r.Replaces is set, otherwise a *driver.HeldError
//	does not exist            driver.ErrLost
func (s *Store) nextValue(old *item, r *driver.Request) (*note, error) {
	next := newNote(r)
	switch {
	case old != nil && old.Token == r.Token.Text():
		return old.renewedNote(next.Life), nil
	case old != nil && r.Replaces.Text() != "" && old.Token == r.Replaces.Text():
		next.Life = max(next.Life, old.left)
		return next, nil
	case r.Replaces.Text() != "":
		return nil, driver.ErrLost
	}
	h := s.holdOf(old, time.Now())
	return nil, &driver.HeldError{Holds: []driver.Hold{h}, Until: h.Until, Waiters: -1}
}

// renewedNote returns a new value for the hold in the item i. The server keeps the new value for at
// least life seconds.
func (i *item) renewedNote(life int) *note {
	n := i.note
	n.Age, n.Life = i.age(), max(life, i.left)
	return &n
}

// Extend implements driver.Store. Its requests never change the hold of another token.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	k := s.keyFor(name)
	for range rounds {
		old, err := s.read(ctx, k)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case old == nil || old.Token != token:
			return driver.Grant{}, driver.ErrLost // after the end of a hold, memcached knows nothing about the name
		}
		g := driver.Grant{TTL: max(ttl, time.Duration(old.left-slip)*time.Second, time.Millisecond)}
		if ttl == 0 {
			return g, nil
		}
		if swapped, err := s.swap(ctx, k, old, old.renewedNote(lifeFor(ttl))); swapped || err != nil {
			return grantIf(swapped, g), err
		}
	}
	return driver.Grant{}, errRestless
}

// Release implements driver.Store. It removes the value that it has read and no other one.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	k := s.keyFor(name)
	for range rounds {
		old, err := s.read(ctx, k)
		if err != nil || old == nil || old.Token != token {
			return driver.OutcomeGone, err
		}
		if ended, err := s.endValue(ctx, k, old, keep); ended || err != nil {
			return outcome(ended), err
		}
	}
	return driver.OutcomeGone, errRestless
}

func outcome(ended bool) driver.Outcome {
	if ended {
		return driver.OutcomeReleased
	}
	return driver.OutcomeGone
}

// endValue removes a value, or replaces it by a cool-down. It returns false if the value has
// changed.
func (s *Store) endValue(ctx context.Context, k key, old *item, keep time.Duration) (bool, error) {
	if keep > 0 {
		return s.swap(ctx, k, old, &note{Holder: old.Holder, Life: lifeFor(keep)})
	}
	return s.change(ctx, old.over, removeRequest(k, old.id))
}

// add writes a value for a name. It returns false if the name already has a value.
func (s *Store) add(ctx context.Context, k key, n *note) (bool, error) {
	return s.change(ctx, nil, addRequest(k, s.encode(n), n.Life))
}

// swap replaces a value. It returns false if the value has changed since it was read. If the server
// has no room for the new value and may not evict others (memcached -M), the server drops the old
// value.
func (s *Store) swap(ctx context.Context, k key, old *item, n *note) (bool, error) {
	swapped, err := s.change(ctx, old.over, swapRequest(k, old.id, s.encode(n), n.Life))
	if errors.Is(err, driver.ErrUnavailable) && ctx.Err() == nil {
		err = fmt.Errorf("%w: the lock may be lost: %s", driver.ErrUncertain, err)
	}
	return swapped, err
}

// change sends a request that changes a value. It returns false if the value is not what the
// request expects. If the request contains the ID of a value, sameLink is the connection that the
// ID came from. If sameLink has ended, change also returns false.
func (s *Store) change(ctx context.Context, sameLink *link, request []byte) (bool, error) {
	r, err := s.client.roundTripOn(ctx, sameLink, request)
	switch {
	case errors.Is(err, errOtherLink):
		return false, nil
	case err != nil:
		return false, failure(ctx, err, true)
	}
	switch r.word {
	case "HD":
		return true, nil
	case "NS", "EX", "NF":
		return false, nil
	}
	return false, refusal(r)
}

// read returns the value of a name, or nil if it has none.
func (s *Store) read(ctx context.Context, k key) (*item, error) {
	r, err := s.client.roundTrip(ctx, readRequest(k))
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	switch r.word {
	case "EN":
		return nil, nil
	case "VA":
		return s.decode(k, &r)
	}
	return nil, refusal(r)
}
