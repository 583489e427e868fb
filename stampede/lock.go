package stampede

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/padlock-go/padlock"
)

const (
	defaultLease = 2 * time.Second
	maxLockName  = 1024 // driver.MaxName
)

// lockName returns name. If name is longer than padlock allows, a hash takes the place of its end.
func lockName(name string) string {
	if len(name) <= maxLockName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:200] + "…sha256:" + hex.EncodeToString(sum[:])
}

// lockOptions puts the short renewed lease before the caller's options.
func lockOptions(l *padlock.Locker, lease time.Duration, opts ...padlock.Option) []padlock.Option {
	all := make([]padlock.Option, 0, len(opts)+1)
	if l.Guarantees().Lease {
		all = append(all, padlock.TTL(lease))
	}
	return append(all, opts...)
}
