package stampede

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/padlock-go/padlock"
)

const (
	defaultLease = 2 * time.Second
	maxLockName  = 1024 // driver.MaxName; TestMaxLockName compares them
	keptOfName   = 200  // how many bytes of a long name stay; a hash replaces the others
)

// lockName returns name. If name is too long for the store of l, lockName replaces the end of name
// by a hash. If the store has no room even for the hash, lockName returns name as it is, and the
// store will refuse it.
func lockName(l *padlock.Locker, name string) string {
	most := l.Guarantees().MaxName
	if most == 0 {
		most = maxLockName
	}
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "…sha256:" + hex.EncodeToString(sum[:])
	if most < len(hash) {
		return name
	}
	return name[:min(keptOfName, most-len(hash))] + hash
}
