package session

import "context"

// A Key is a key of a session together with the type of its value, so that the compiler finds a
// value of another type:
//
//	const cart session.Key[[]Item] = "cart"
//
//	items, err := cart.Get(s)
//	err = cart.Put(s, append(items, item))
//
// All other methods of a Session take the key as string(cart).
type Key[T any] string

// Get is Get with the type of the key.
func (k Key[T]) Get(s *Session) (T, error) { return Get[T](s, string(k)) }

// GetOr is GetOr with the type of the key.
func (k Key[T]) GetOr(s *Session, def T) T { return GetOr(s, string(k), def) }

// Lookup is Lookup with the type of the key.
func (k Key[T]) Lookup(s *Session) (v T, found bool, err error) { return Lookup[T](s, string(k)) }

// Put is Session.Put with the type of the key.
func (k Key[T]) Put(s *Session, v T) error { return s.Put(string(k), v) }

// Take is Take with the type of the key.
func (k Key[T]) Take(ctx context.Context, s *Session) (v T, found bool, err error) {
	return Take[T](ctx, s, string(k))
}
