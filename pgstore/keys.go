package pgstore

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// A keyring turns names into the numbers that PostgreSQL locks.
type keyring struct {
	namespace string
	symfony   bool
}

// lock returns the number of a name: 64 bits of a hash, or the CRC-32 that PHP's Symfony locks.
func (k *keyring) lock(name string) int64 {
	if k.symfony {
		return int64(crc32.ChecksumIEEE([]byte(name)))
	}
	return k.hash("lock", name)
}

// intent returns the number that a reader locks while it waits to be promoted, so that no new
// reader comes in.
func (k *keyring) intent(name string) int64 { return k.hash("intent", name) }

// hash depends on the lengths too, so that no namespace and name look like another pair.
func (k *keyring) hash(kind, name string) int64 {
	text := make([]byte, 0, 64)
	for _, part := range []string{"padlock", kind, k.namespace} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(append(text, name...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
