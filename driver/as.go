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

// abilitiesOf returns all parts of an optional interface, and none for the type of a store. It knows
// the interfaces of package fast, which this package cannot import, by their names. (With the methods
// of a reflect.Type the linker would keep every method of a program: 12 MB more.) Places is not in the
// table, because no store lacks its method Location.
func abilitiesOf(t reflect.Type) Ability { return abilityOf[t.PkgPath()+"."+t.Name()] }

const contract = "github.com/padlock-go/padlock/driver"

var abilityOf = map[string]Ability{
	contract + ".Waiter":             AbilityWaiter,
	contract + ".Converter":          AbilityConverter,
	contract + ".Admin":              AbilityInspect | AbilityList | AbilityBreak,
	contract + ".FenceRaiser":        AbilityFenceRaiser,
	contract + ".Reporter":           AbilityReporter,
	contract + "/fast.SlotTaker":     AbilitySlotTaker,
	contract + "/fast.BatchExtender": AbilityBatchExtender,
	contract + "/fast.Passer":        AbilityPasser,
	contract + "/fast.FileSharer":    AbilityFileSharer,
	contract + "/fast.Recorder":      AbilityRecorder,
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
