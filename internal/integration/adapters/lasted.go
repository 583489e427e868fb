package adapters

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock"
)

// lasted releases the lock after the work. It returns an error if the lock did not last until then,
// and nil if the store has merely not confirmed the release: the Locker repeats it.
func lasted(lock *padlock.Lock) error {
	over := context.Cause(lock.Context()) // lost, or released by Locker.Close
	err := lock.Release()
	if errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired) || errors.Is(err, padlock.ErrMaxHold) {
		return err
	}
	return over
}
