package driver

import "reflect"

// As returns s as a T, or the first store inside s that is one: it asks s itself, then what its
// method Unwrap() Store returns, and so on. T is an optional interface such as Waiter, or the type
// of a store.
//
//	waiter, ok := driver.As[driver.Waiter](store)
//
// A wrapper that adds a metric, a log line or a delay to the methods of Store has the method
//
//	func (w *wrapper) Unwrap() driver.Store { return w.inner }
//
// and loses no ability of the store inside. Calls of an ability that the wrapper does not have
// itself go past it. So a wrapper may have Unwrap only if names and tokens mean the same inside as
// outside; one that changes names does not, see WithPrefix.
//
// As walks through wrappers: call it once for each store, not for each request.
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

// has reports whether s, which has the methods of T, is more than a prefix before a store without
// them.
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

// SamePlace reports whether a and b are known to keep their locks in the same place: they are the
// same value, or one of them says so as a SamePlacer, after wrappers and prefixes are removed.
// False says nothing. A store made of stores uses it so that none of them has two votes.
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
