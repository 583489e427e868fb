package mysqlstore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

const (
	// ownPrefix begins the names of padlock's locks. With the 56 hexadecimal digits that follow, a
	// name has 64 characters, which is the most that MySQL allows. Symfony's names are 64
	// hexadecimal digits, so they are never equal to padlock's. All letters are lower-case, because
	// only some servers distinguish lower-case letters from capital ones.
	ownPrefix = "padlock:"
	// markPrefix begins the name of the lock by which a session is recognised.
	markPrefix = "padlock!"
)

// A keyring computes the server's name of a lock from the name that the caller gave.
type keyring struct {
	symfony   bool
	namespace string
	database  string // of the table of fences; it is hashed into the name, because a lock belongs to the whole server
}

// lockName returns the name of a lock in the server. It contains 224 bits of a hash. With
// SymfonyLayout, it is the SHA-256 that PHP's Symfony locks. No character of the name is special in
// SQL.
func (k *keyring) lockName(name string) string {
	if k.symfony {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	// The lengths are hashed too, so that two different pairs of namespace and name never hash the
	// same text.
	text := make([]byte, 0, 128)
	for _, part := range []string{"padlock lock", strings.ToLower(k.database), k.namespace} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(append(text, name...))
	return ownPrefix + hex.EncodeToString(sum[:28])
}

// newMark returns a name that no other session uses.
func newMark() string {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return markPrefix + hex.EncodeToString(random[:])
}
