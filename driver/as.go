package driver

import "reflect"

// As returns the optional interface T of a store, such as [Waiter], unless the store lacks all of
// it. T may also be the type of a store.
//
// If a store has a method Unwrap() Store, As also looks at the store inside. A wrapper that changes
// neither names nor tokens should have it. Abilities that it does not implement then bypass it.
func As[T any](s Store) (T, bool) {
	found := find(s, abilityOf[reflect.TypeFor[T]()], func(s Store) bool {
		_, ok := s.(T)
		return ok
	})
	t, ok := found.(T)
	return t, ok
}

// abilityOf has all parts of each optional interface. Places is not in it, because no store lacks
// its method Location.
var abilityOf = map[reflect.Type]Ability{
	reflect.TypeFor[Waiter]():        AbilityWaiter,
	reflect.TypeFor[SlotTaker]():     AbilitySlotTaker,
	reflect.TypeFor[BatchExtender](): AbilityBatchExtender,
	reflect.TypeFor[Passer]():        AbilityPasser,
	reflect.TypeFor[Converter]():     AbilityConverter,
	reflect.TypeFor[Admin]():         AbilityInspect | AbilityList | AbilityBreak,
	reflect.TypeFor[FenceRaiser]():   AbilityFenceRaiser,
	reflect.TypeFor[FileSharer]():    AbilityFileSharer,
	reflect.TypeFor[Recorder]():      AbilityRecorder,
	reflect.TypeFor[Reporter]():      AbilityReporter,
}

// find returns the outermost of s and the stores inside it that has an ability. It returns nil if
// there is none, or if that store lacks all parts of the ability.
func find(s Store, all Ability, has func(Store) bool) Store {
	for ; s != nil; s = unwrap(s) {
		if !has(s) {
			continue
		}
		if all != 0 && s.Guarantees().Lacks&all == all {
			return nil
		}
		return s
	}
	return nil
}

// unwrap returns the store inside s, or nil.
func unwrap(s Store) Store {
	if w, ok := s.(interface{ Unwrap() Store }); ok {
		return w.Unwrap()
	}
	return nil
}

// SamePlace reports whether a and b are the same value, or one of them has [Places] and says that
// they are in the same place. It removes wrappers and prefixes first.
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
