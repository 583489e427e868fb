package driver

import "reflect"

// As returns the optional interface T of a store, such as [Waiter], unless the store lacks all of
// it. T may also be the type of a store.
//
// If a store has a method Unwrap() Store, As also looks at the store inside. A wrapper that changes
// neither names nor tokens should have it; abilities that it does not implement then bypass it.
func As[T any](s Store) (T, bool) {
	var none T
	for ; s != nil; s = unwrap(s) {
		if t, has := s.(T); has {
			if all := abilitiesOf(reflect.TypeFor[T]()); all != 0 && s.Guarantees().Lacks&all == all {
				return none, false
			}
			return t, true
		}
	}
	return none, false
}

// abilityOf has the Ability of each method of an optional interface, also of those in package fast,
// which this package cannot import. It has no method of Places, because no store lacks Location.
var abilityOf = map[string]Ability{
	"Wait":        AbilityWaiter,
	"AcquireSlot": AbilitySlotTaker,
	"ExtendBatch": AbilityBatchExtender,
	"Pass":        AbilityPasser,
	"Convert":     AbilityConverter,
	"Inspect":     AbilityInspect,
	"List":        AbilityList,
	"Break":       AbilityBreak,
	"RaiseFence":  AbilityFenceRaiser,
	"File":        AbilityFileSharer,
	"Record":      AbilityRecorder,
	"Status":      AbilityReporter,
}

// abilitiesOf returns all abilities of an interface, and none for the type of a store.
func abilitiesOf(t reflect.Type) (all Ability) {
	if t.Kind() != reflect.Interface {
		return 0
	}
	for i := range t.NumMethod() {
		all |= abilityOf[t.Method(i).Name]
	}
	return all
}

// unwrap returns the store inside s, or nil.
func unwrap(s Store) Store {
	if w, ok := s.(interface{ Unwrap() Store }); ok {
		return w.Unwrap()
	}
	return nil
}

// SamePlace reports whether a and b, without wrappers, are the same value, or in the same place, as
// [Places] of one of them says.
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

// innermost removes wrappers.
func innermost(s Store) Store {
	for inner := unwrap(s); inner != nil; inner = unwrap(s) {
		s = inner
	}
	return s
}
