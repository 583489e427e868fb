package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/padlock-go/padlock"
)

// ownVariables are the variables that say under which lock a command runs.
var ownVariables = map[string]bool{
	"PADLOCK_NAME": true, "PADLOCK_STORE": true, "PADLOCK_FENCE": true,
	"PADLOCK_LOCK_KEY": true, "PADLOCK_EXPIRES": true,
}

// variables are those of this lock.
func (f *front) variables() ([]string, error) {
	url, err := f.url()
	if err != nil {
		return nil, err
	}
	vars := []string{"PADLOCK_NAME=" + f.name, "PADLOCK_STORE=" + url}
	if fence := f.lock.Fence(); fence != 0 {
		vars = append(vars, "PADLOCK_FENCE="+strconv.FormatUint(fence, 10))
	}
	key, err := exported(f.lock)
	if err != nil {
		return nil, f.explain(f.name, err)
	}
	if key != "" {
		vars = append(vars, "PADLOCK_LOCK_KEY="+key)
	}
	if left := f.lock.Remaining(); f.set.noRenewal && f.locker.Guarantees().Lease {
		vars = append(vars, "PADLOCK_EXPIRES="+strconv.FormatInt(time.Now().Add(left).Unix(), 10))
	}
	return vars, nil
}

// exported is the key with which another process takes the lock over, or "" if
// the lock cannot leave this one.
func exported(lock *padlock.Lock) (string, error) {
	key, err := lock.Export()
	if errors.Is(err, errors.ErrUnsupported) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	word, err := key.MarshalText()
	return string(word), err
}
