package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// ownVariables are the environment variables that describe a command's lock.
var ownVariables = map[string]bool{
	"PADLOCK_NAME": true, open.EnvStore: true, open.EnvStoreFile: true, "PADLOCK_FENCE": true,
	"PADLOCK_LOCK_KEY": true, "PADLOCK_EXPIRES": true, "PADLOCK_SLOT": true, "PADLOCK_SLOTS": true, "PADLOCK_FENCES": true,
}

// variables returns the variables that describe this lock. Without --pass-key, the job learns no
// new secret from them.
func (f *front) variables() ([]string, error) {
	store, err := f.storeVariable()
	if err != nil {
		return nil, err
	}
	vars := []string{"PADLOCK_NAME=" + f.name, store}
	if fence := f.lock.Fence(); fence != 0 {
		vars = append(vars, "PADLOCK_FENCE="+strconv.FormatUint(fence, 10))
	}
	if slot := f.lock.Slot(); slot >= 0 {
		vars = append(vars, "PADLOCK_SLOT="+strconv.Itoa(slot))
	}
	if f.set.weight > 0 {
		vars = append(vars, "PADLOCK_SLOTS="+strings.Trim(strings.ReplaceAll(fmt.Sprint(f.all.Slots()), " ", ","), "[]"))
	}
	if fences := f.otherFences(); fences != "" {
		vars = append(vars, "PADLOCK_FENCES="+fences)
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
	if left := f.remaining(); f.set.noRenewal && f.locker.Guarantees().Lease {
		vars = append(vars, "PADLOCK_EXPIRES="+strconv.FormatInt(time.Now().Add(left).Unix(), 10))
	}
	return vars, nil
}

// storeVariable returns the environment variable that tells the job which store to use. If a file
// contains the store's URL, the variable tells the path of that file. Otherwise the variable
// contains the URL. Without --pass-key, storeVariable removes the password from the URL of --store.
func (f *front) storeVariable() (string, error) {
	if f.urlSource() == open.EnvStoreFile {
		file, err := filepath.Abs(os.Getenv(open.EnvStoreFile)) // the job may change its directory
		return open.EnvStoreFile + "=" + file, err
	}
	store, err := f.url()
	if f.storeURL != "" && !f.set.passKey {
		store = f.withoutPassword(store)
	}
	return open.EnvStore + "=" + store, err
}

// exported returns the text of the lock's key. Another process can take over the lock with it.
func exported(locks ...*padlock.Lock) (string, error) {
	var words []string
	for _, lock := range locks {
		key, err := lock.Export(lock.Context())
		if err != nil {
			return "", err
		}
		words = append(words, key.Text())
	}
	return strings.Join(words, keyJoint), nil
}

// withoutPassword returns the URL of a store without user, password and secret parameters. The
// result is a URL of the same store, or no valid URL. It is never a URL of another store.
func (p *program) withoutPassword(store string) string {
	name, _, _ := strings.Cut(store, ":")
	u, s, err := open.Parse(store, p.schemes)
	if err != nil || strings.HasPrefix(name, "symfony+") && s.Servers != nil {
		if strings.ContainsAny(store, "@?") { // a DSN may contain passwords in many places
			return name + ":"
		}
		return store
	}
	query := u.Query()
	secret := u.User != nil
	for _, name := range s.Secrets {
		secret = secret || query.Has(name)
		query.Del(name)
	}
	if s.Composite {
		for i, m := range query["store"] {
			query["store"][i] = p.withoutPassword(m)
			secret = secret || query["store"][i] != m
		}
	}
	if !secret {
		return store // return it unchanged
	}
	u.User = nil
	if rest := query.Encode(); rest != u.Query().Encode() {
		u.RawQuery = rest
	}
	return u.String()
}
