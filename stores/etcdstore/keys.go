package etcdstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/padlock-go/padlock/storekit"
)

// A kind is the letter in a key that says what the key stands for.
//
//	key                    stands for
//	PREFIX l/NAME/a/SLOT   a place in the queue
//	PREFIX l/NAME/c/LEASE  a cool-down; for a hold with AtLeast, it exists before the hold ends
//	PREFIX l/NAME/i/SLOT   the intent of a reader that wants to be promoted
//	PREFIX l/NAME/k/       the exclusive hold
//	PREFIX l/NAME/r/SLOT   a shared hold
//	PREFIX l/NAME/s/LEASE  a cool-down that a reader left; it lets other readers in
//	PREFIX f/NAME          the last fence of the name
//	PREFIX b/LEASE         the barrier of the places with this lease; see ticket
//	PREFIX id              the ID of the store
//
// The order of the letters matters, because a transaction compares a range of keys. The kinds from
// c to s can keep a writer out. The kinds from c to k can keep a reader out.
//
// The store uses the same keys again and again. New keys would make comparisons slower, because the
// server also steps over deleted keys until its history is compacted. A SLOT is the random ID of a
// store and a small number.
//
// The key of an ended hold may belong to another hold now. So a transaction first compares the
// revision at which the key was created or last written. The value of a hold's key contains a hash
// of the token, which shows whose hold the key is.
type kind byte

const (
	waiting   kind = 'a'
	cooling   kind = 'c'
	intending kind = 'i'
	exclusive kind = 'k'
	shared    kind = 'r'
	coolingRd kind = 's'
)

// A place says under which keys the server stores one name.
type place struct {
	// All keys of the name begin with dir, except the key of the last fence. dir ends with a slash.
	dir   string
	fence string // the key of the last fence
}

func (c *config) place(name string) place {
	escaped := keyNames.Escape(name)
	return place{dir: c.prefix + "l/" + escaped + "/", fence: c.prefix + "f/" + escaped}
}

// key returns the key of the given kind. Its last part is a slot, the number of a lease, or "".
func (p *place) key(k kind, last string) string { return p.dir + string(rune(k)) + "/" + last }

func (p *place) end() string { return p.dir[:len(p.dir)-1] + "0" }

func (p *place) after(k kind) string { return p.dir + string(rune(k+1)) }

// slot returns a text with which the store makes keys that no other store uses. It consists of the
// random ID of the store and the number n.
func slot(store string, n int) string { return store + "-" + strconv.Itoa(n) }

// queue returns the range of the keys of all waiters.
func (p *place) queue() (from, to string) { return p.dir + string(rune(waiting)), p.after(waiting) }

// blockingKeys returns the range of the keys that can keep a reader out, or a writer if forReaders
// is false. The places in the queue are not in this range.
func (p *place) blockingKeys(forReaders bool) (from, to string) {
	if forReaders {
		return p.after(waiting), p.after(exclusive)
	}
	return p.after(waiting), p.end()
}

// idOf returns a hash of a token. The values of keys contain the hash, so the server never sees the
// token.
func idOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// keyNames makes the parts of keys that stand for names. They contain no slash.
var keyNames = storekit.Escaping{Plain: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:@+=,"}
