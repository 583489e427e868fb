package mysqladvisory

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// Each session has its mark, a lock with a random name, by which the session is recognised. The
// name of every mark starts with markPrefix, which is not hexadecimal as the names of locks are.
const markPrefix = "padlock!"

// lockName returns the name of a lock in the server, as in PHP's Symfony: the SHA-256 hash of the
// caller's name in hexadecimal. No character of it is special in SQL.
func lockName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// newMark returns a name that no other session uses.
func newMark() string {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return markPrefix + hex.EncodeToString(random[:])
}
