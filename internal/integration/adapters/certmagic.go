package adapters

import (
	"github.com/caddyserver/certmagic"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/certmagiclock"
)

// inner is one level deeper than Locks, so that the methods of Locks win.
type inner struct{ certmagic.Storage }

type lockedStorage struct {
	inner
	*certmagiclock.Locks
}

func withLocks(files certmagic.Storage, locker *padlock.Locker) certmagic.Storage {
	return lockedStorage{inner{files}, certmagiclock.New(locker)}
}
