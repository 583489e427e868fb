package storekit

import "github.com/padlock-go/padlock/driver/fast"

// StoredName returns the name under which stores keep a *padlock.Lock or one of its permits.
func StoredName(lock interface{ Name() string }) string {
	if permit, ok := lock.(interface{ Slot() int }); ok {
		if slot := permit.Slot(); slot >= 0 {
			return fast.SlotName(lock.Name(), slot)
		}
	}
	return lock.Name()
}
