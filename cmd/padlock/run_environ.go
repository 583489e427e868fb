package main

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// ownVariables are the variables that say under which lock a command runs.
var ownVariables = map[string]bool{
	"PADLOCK_NAME": true, "PADLOCK_STORE": true, "PADLOCK_FENCE": true,
	"PADLOCK_LOCK_KEY": true, "PADLOCK_EXPIRES": true,
}

// variables are those of this lock. Secrets that the job would not have anyway
// are passed on with --pass-key only.
func (f *front) variables() ([]string, error) {
	store, err := f.url()
	if err != nil {
		return nil, err
	}
	if f.storeURL != "" && !f.set.passKey {
		store = withoutPassword(store)
	}
	vars := []string{"PADLOCK_NAME=" + f.name, "PADLOCK_STORE=" + store}
	if fence := f.lock.Fence(); fence != 0 {
		vars = append(vars, "PADLOCK_FENCE="+strconv.FormatUint(fence, 10))
	}
	if f.set.passKey {
		key, err := exported(f.lock)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, fail(exitUsage, "unsupported", f.name, "--pass-key: a lock of %s cannot be handed over; command not run", f.place())
		case err != nil:
			return nil, f.explain(f.name, err)
		}
		vars = append(vars, "PADLOCK_LOCK_KEY="+key)
	}
	if left := f.lock.Remaining(); f.set.noRenewal && f.locker.Guarantees().Lease {
		vars = append(vars, "PADLOCK_EXPIRES="+strconv.FormatInt(time.Now().Add(left).Unix(), 10))
	}
	return vars, nil
}

// exported is the key with which another process takes the lock over.
func exported(lock *padlock.Lock) (string, error) {
	key, err := lock.Export()
	if err != nil {
		return "", err
	}
	word, err := key.MarshalText()
	return string(word), err
}

// withoutPassword is the URL of a store without the user and the password. What
// it returns names the same store or none, and never another one.
func withoutPassword(store string) string {
	scheme, _, _ := strings.Cut(store, ":")
	u, err := url.Parse(store)
	switch {
	case err != nil || u.Opaque != "", strings.HasPrefix(scheme, "symfony+redis"):
		if strings.ContainsAny(store, "@?") { // a DSN has passwords in many places
			return scheme + ":"
		}
		return store
	}
	query := u.Query()
	if members := query["store"]; len(members) > 0 { // a store made of stores
		changed := false
		for i, m := range members {
			members[i] = withoutPassword(m)
			changed = changed || members[i] != m
		}
		if changed {
			u.RawQuery = query.Encode()
		}
	}
	if u.User != nil {
		u.User = nil
	} else if len(query["store"]) == 0 {
		return store // as it was written
	}
	return u.String()
}
