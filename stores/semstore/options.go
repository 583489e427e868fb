package semstore

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Hash chooses how the key of a semaphore is made from the name of a lock. Programs that use
// different hashes do not see each other's locks. The zero Hash is invalid.
type Hash int

const (
	// MD5 is the hash of Symfony up to 6.2.
	MD5 Hash = iota + 1
	// XXH128 is the hash of Symfony since 6.3.
	XXH128
	// NoHash means that the name of a lock is the key itself: the name "1" is the semaphore of
	// PHP's sem_get(1). A name is a whole number of 32 bits in its usual form, and not 0. For any
	// other name, the methods return driver.ErrInvalid. A release keeps the semaphore, as PHP's
	// sem_release does.
	NoHash
)

// hashes maps each Hash to its name in the parameter "hash" of a URL.
var hashes = map[Hash]string{MD5: "md5", XXH128: "xxh128", NoHash: "none"}

// String returns "md5", "xxh128" or "none".
func (h Hash) String() string {
	if s, ok := hashes[h]; ok {
		return s
	}
	return fmt.Sprintf("Hash(%d)", int(h))
}

// key returns the key of the semaphore. It is the first four bytes of the digest in the byte order
// of this machine, as PHP's unpack('i', …) reads them. All systems that this package supports are
// little-endian. With NoHash, key returns 0 for a name that is not a number.
func (h Hash) key(name string) int32 {
	if h == NoHash {
		n, err := strconv.ParseInt(name, 10, 32)
		if err != nil || strconv.FormatInt(n, 10) != name {
			return 0
		}
		return int32(n)
	}
	var digest [16]byte
	if h == MD5 {
		digest = md5.Sum([]byte(name))
	} else {
		digest = xxh128([]byte(name))
	}
	return int32(binary.LittleEndian.Uint32(digest[:]))
}

// Option changes what Open does.
type Option func(*config)

type config struct {
	threads int
	key     func(name string) int32
	keep    bool // a release keeps the set, as PHP's sem_release does
}

// DefaultMaxThreads is how many waiters wait in the kernel, unless MaxThreads sets another number.
const DefaultMaxThreads = 256

// MaxThreads sets how many calls of Wait may wait in the kernel at the same time. The default is
// DefaultMaxThreads. Each of them occupies a thread. Further calls check their semaphores every 25
// ms. The number is 0 or more; a negative n counts as 0, and there is no error. With 0, all calls
// check every 25 ms.
func MaxThreads(n int) Option { return func(c *config) { c.threads = max(n, 0) } }
