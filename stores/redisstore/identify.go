package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"

	"github.com/padlock-go/padlock/driver"
)

// identity caches the id of the store until a connection is made or lost. After that, another
// server may be at the address, or the server may have lost its data.
type identity struct {
	mu    sync.Mutex
	id    string
	turns uint64
}

// StoreID implements driver.Places. The id is the value of a key: "padlock:{id}" with the
// store's prefix before it. The first call of StoreID writes this key, without an expiry. Stores
// with another prefix or another database have another key, so they have another id.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return "", err
	}
	turns := s.checks.turns.Load()
	if id := s.identity.known(turns); id != "" {
		return id, nil
	}
	key := s.keys.id()
	id, err := s.scripts.identify.do(ctx, c, []string{key}, []string{rand.Text()}).ToString()
	if err != nil {
		return "", s.failure(ctx, err)
	}
	if !validID(id) {
		return "", unavailable("the key %q is for the id of the store and has something else; delete it", key)
	}
	s.identity.remember(id, turns)
	return id, nil
}

// Location implements driver.Places: each name has a lock of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.guarantees)
}

// SamePlace implements driver.Places. It knows only that equal addresses lead to one server: a
// server has many.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	return ok && s.server.Sentinel.MasterName == o.server.Sentinel.MasterName &&
		slices.ContainsFunc(s.server.Addresses(), func(a string) bool { return slices.Contains(o.server.Addresses(), a) })
}

// known returns the cached id, or "" if a connection was made or lost since it was read.
func (i *identity) known(turns uint64) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.turns != turns {
		return ""
	}
	return i.id
}

func (i *identity) remember(id string, turns uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.id, i.turns = id, turns
}

func validID(id string) bool {
	for _, b := range []byte(id) {
		if !(b == '-' || b == '_' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z') {
			return false
		}
	}
	return id != "" && len(id) <= driver.MaxStoreID
}
