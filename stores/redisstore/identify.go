package redisstore

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// StoreID implements driver.Places. The id is the value of a key: "padlock:{id}" with the
// store's prefix before it. The first call of StoreID writes this key, without an expiry. Stores
// with another prefix or another database have another key, so they have another id.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return "", err
	}
	key := s.keys.id()
	id, err := s.scripts.identify.do(ctx, c, []string{key}, []string{rand.Text()}).ToString()
	if err != nil {
		return "", s.failure(ctx, err)
	}
	if !validID(id) {
		return "", unavailable("the key %q is for the id of the store and has something else; delete it", key)
	}
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

func validID(id string) bool {
	for _, b := range []byte(id) {
		if !(b == '-' || b == '_' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z') {
			return false
		}
	}
	return id != "" && len(id) <= driver.MaxStoreID
}
