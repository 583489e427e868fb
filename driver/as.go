package driver

import "reflect"

// As returns the optional interface T of a store, such as [Waiter]. If the store does not implement
// T, or lacks all of T (see Guarantees.Lacks), As returns false. A store with a method Unwrap()
// Store is a wrapper. If a wrapper does not implement T, As calls Unwrap and looks at the store
// inside, which may be a wrapper too. T may also be the type of a store.
//
//	waiter, ok := driver.As[driver.Waiter](store)
//
// A wrapper that adds a metric, a log line or a delay to the methods of Store should have the
// method Unwrap. Calls of an ability that the wrapper does not implement go directly to the store
// inside. So a wrapper that changes names or tokens must not have Unwrap; see WithPrefix.
//
// As looks into every wrapper: call it once for each store, not for each request.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			g := s.Guarantees()
			if all := abilityOf[T](); all == 0 || g.Lacks&all != all {
				return t, true
			}
			break
		}
		s = unwrap(s)
	}
	var none T
	return none, false
}

// abilityOf returns all parts of the optional interface T, or 0 if T is another type.
func abilityOf[T any]() Ability {
	switch any((*T)(nil)).(type) {
	case *Waiter:
		return AbilityWaiter
	case *SlotTaker:
		return AbilitySlotTaker
	case *BatchExtender:
		return AbilityBatchExtender
	case *Passer:
		return AbilityPasser
	case *Converter:
		return AbilityConverter
	case *Admin:
		return AbilityInspect | AbilityList | AbilityBreak
	case *FenceRaiser:
		return AbilityFenceRaiser
	case *FileSharer:
		return AbilityFileSharer
	case *Recorder:
		return AbilityRecorder
	case *Reporter:
		return AbilityReporter
	}
	return 0
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
// them implements Places and says so. False means that the places differ, or that this is not
// known. A composite store uses SamePlace so that no member has two votes.
func SamePlace(a, b Store) bool {
	a, b = innermost(a), innermost(b)
	if p, ok := a.(Places); ok && p.SamePlace(b) {
		return true
	}
	if p, ok := b.(Places); ok && p.SamePlace(a) {
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
