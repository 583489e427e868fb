package mysqladvisory

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
	// Each session has its mark, a lock with a random name, by which the session is recognised.
	// The name of every mark starts with markPrefix.
	markPrefix = "padlock!"
)

// A keyring turns the name that a caller gave into the lock name that MySQL gets.
type keyring struct {
	symfony   bool
	namespace string
	// database is the database that contains the table of fences. The server does not keep the
	// locks of its databases apart. So the name of each lock contains a hash of database.
	database string
}

// lockName returns the name of a lock in the server. No character of that name is special in SQL.
// With SymfonyLayout, the name is the SHA-256 hash of the caller's name, as in PHP's Symfony.
// Otherwise the name contains 224 bits of such a hash.
func (k *keyring) lockName(name string) string {
	if k.symfony {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	// The hash includes the length of each part. Otherwise the namespace "ab" with the name "c"
	// would give the same hash as the namespace "a" with the name "bc".
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
