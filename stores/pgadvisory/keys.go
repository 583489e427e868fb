package pgadvisory

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strconv"

	"github.com/padlock-go/padlock/storekit"
)

// A keyring turns names into the numbers that PostgreSQL locks.
type keyring struct {
	namespace string
	layout    layout
}

// A layout says how a name becomes a number.
type layout int

const (
	hashLayout    layout = iota
	symfonyLayout        // see SymfonyLayout
	numberLayout         // see NumberLayout
)

// check returns an error for a name that has no number.
func (k *keyring) check(name string) error {
	if k.layout != numberLayout {
		return nil
	}
	if n, err := strconv.ParseInt(name, 10, 64); err != nil || strconv.FormatInt(n, 10) != name {
		return storekit.Invalidf("the name %q is not a whole number of 64 bits such as 7, and layout=number locks the number itself", name)
	}
	return nil
}

// lockNumber returns the number for a name that has one. It is 64 bits of a hash of the name. With
// SymfonyLayout, it is the CRC-32 of the name, because PHP's Symfony locks that number.
func (k *keyring) lockNumber(name string) int64 {
	switch k.layout {
	case symfonyLayout:
		return int64(crc32.ChecksumIEEE([]byte(name)))
	case numberLayout:
		n, _ := strconv.ParseInt(name, 10, 64)
		return n
	}
	return k.hashOf("lock", name)
}

// intent returns the number of a second advisory lock of the name. A reader that waits to be
// promoted takes this second lock. Until the reader releases it, no new reader gets the first lock.
func (k *keyring) intent(name string) int64 { return k.hashOf("intent", name) }

// hashOf returns 64 bits of a hash of the kind, the namespace and the name. The hashed text
// includes the lengths of the kind and the namespace, so that two different pairs of namespace and
// name never give the same text.
func (k *keyring) hashOf(kind, name string) int64 {
	text := make([]byte, 0, 64)
	for _, part := range []string{"padlock", kind, k.namespace} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(append(text, name...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func parse(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b), 10, 64)
	return n
}

// bytea returns s as a parameter of type bytea.
func bytea(s string) []byte { return hex.AppendEncode([]byte(`\x`), []byte(s)) }
