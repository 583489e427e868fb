package driver

import "reflect"

// As returns the optional interface T of a store, such as [Waiter]. If the store does not implement
// T, As returns false. A store with a method Unwrap() Store is a wrapper. If a wrapper does not
// implement T, As calls Unwrap and looks at the store inside, which may be a wrapper too. T may
// also be the type of a store.
//
//	waiter, ok := driver.As[driver.Waiter](store)
//
// A wrapper that adds a metric, a log line or a delay to the methods of Store should have the
// method
//
//	func (w *wrapper) Unwrap() driver.Store { return w.inner }
//
// With this method, As finds all abilities of the store inside. If the wrapper does not implement
// an ability itself, calls of that ability go directly to the store inside. So a wrapper may have
// Unwrap only if it leaves names and tokens unchanged. A wrapper that changes names must not have
// Unwrap; see WithPrefix.
//
// As looks into every wrapper: call it once for each store, not for each request.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok && has[T](s) {
			return t, true
		}
		s = unwrap(s)
	}
	var none T
	return none, false
}

// has reports whether s really has the ability T. A prefixed store has all methods of all
// abilities, so the store inside it decides.
func has[T any](s Store) bool {
	p, ok := s.(*prefixed)
	if ok {
		_, ok = As[T](p.inner)
		return ok
	}
	return true
}

// unwrap returns the store inside s, or nil.
func unwrap(s Store) Store {
	if w, ok := s.(interface{ Unwrap() Store }); ok {
		return w.Unwrap()
	}
	return nil
}

// SamePlace reports whether a and b are known to keep their locks in the same place. It removes
// wrappers and prefixes first. Then it returns true if a and b are the same value, or if one of
// them is a SamePlacer that says so. False means that the places differ, or that this is not known.
// A composite store uses SamePlace so that no member has two votes.
func SamePlace(a, b Store) bool {
	a, b = innermost(a), innermost(b)
	if p, ok := a.(SamePlacer); ok && p.SamePlace(b) {
		return true
	}
	if p, ok := b.(SamePlacer); ok && p.SamePlace(a) {
		return true
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// innermost removes wrappers and prefixes.
func innermost(s Store) Store {
	for {
		inner := unwrap(s)
		if p, ok := s.(*prefixed); ok {
			inner = p.inner
		}
		if inner == nil {
			return s
		}
		s = inner
	}
}
