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
//	PREFIX l/NAME/a/PART   a place in the queue
//	PREFIX l/NAME/c/LEASE  a cool-down
//	PREFIX l/NAME/i/PART   the intent of a reader that wants to be promoted
//	PREFIX l/NAME/k/       the exclusive hold
//	PREFIX l/NAME/r/PART   a shared hold
//	PREFIX l/NAME/s/LEASE  a cool-down that a reader left; it lets other readers in
//	PREFIX f/NAME          the last fence of the name
//	PREFIX b/LEASE         the barrier of the places with this lease; see ticket
//	PREFIX id              the ID of the store
//
// The order of the letters matters, because a transaction compares a range of keys. The kinds from
// c to s can keep a writer out. The kinds from c to k can keep a reader out.
//
// The store uses the same keys again and again. New keys would make comparisons slower, because the
// server also steps over deleted keys until its history is compacted. A PART is the random ID of a
// store and a small number.
//
// The key of an ended hold may belong to another hold now. So a transaction first compares the
// revision at which the key was created or last written. The value of a hold's key contains a hash
// of the token, which shows whose hold the key is.
//
// Each step compares what it may have raced with. If the comparison fails, it reads the state of
// the name and begins again, unless the table says otherwise:
//
//	step                         compares
//	Acquire, the claim of the    no key keeps the caller out
//	first waiter
//	Release, a move to another   the last write of the key is the store's own
//	lease
//	verification                 the value begins with the fence and the hash of the token;
//	                             otherwise the hold is lost, or another store changed it
//	IsHolder                     the same, and a move to another lease does not change the value.
//	                             Of several readers of one store with one fence: the fence, in
//	                             all their keys. Otherwise the caller's transaction is not made
//	a new shared hold            no key of the name was written since the state was read
//	a new place in the queue     one key that keeps the caller out still exists (a hold, a
//	                             cool-down, an intent) or was not written again (a place); the
//	                             new key is free
//	deletion of a place that     the last write of the place; otherwise another waiter has the
//	the hold kept                key, and keeps it
//
// A new place does not compare all keys: of n waiters that come at once, each would repeat its
// transaction for every other one. It does not compare the last write of a hold either: an
// Extend may write it.
type kind byte

const (
	waiting   kind = 'a'
	cooling   kind = 'c'
	intending kind = 'i'
	exclusive kind = 'k'
	shared    kind = 'r'
	coolingRd kind = 's'

	kinds = "acikrs"
)

// nameKeys says under which keys the server stores one name.
type nameKeys struct {
	// All keys of the name begin with dir, except the key of the last fence. dir ends with a slash.
	dir   string
	end   string // the end of the range of these keys: dir with 0, which follows the slash
	fence string // the key of the last fence
}

func (c *config) keysOf(name string) nameKeys {
	escaped := keyNames.Escape(name)
	stem := c.prefix + "l/" + escaped
	return nameKeys{dir: stem + "/", end: stem + "0", fence: c.prefix + "f/" + escaped}
}

// key returns the key of the given kind. Its last part is an ownPart, the number of a lease, or "".
func (p *nameKeys) key(k kind, last string) string { return p.dir + string(rune(k)) + "/" + last }

func (p *nameKeys) after(k kind) string { return p.dir + string(rune(k+1)) }

// ownPart returns a text with which the store makes keys that no other store uses. It consists of
// the random ID of the store and the number n.
func ownPart(store string, n int) string { return store + "-" + strconv.Itoa(n) }

// queue returns the range of the keys of all waiters.
func (p *nameKeys) queue() (from, to string) { return p.dir + string(rune(waiting)), p.after(waiting) }

// blockingKeys returns the range of the keys that can keep a reader out, or a writer if forReaders
// is false. The places in the queue are not in this range.
func (p *nameKeys) blockingKeys(forReaders bool) (from, to string) {
	if forReaders {
		return p.after(waiting), p.after(exclusive)
	}
	return p.after(waiting), p.end
}

// idOf returns a hash of a token. The values of keys contain the hash, so the server never sees the
// token.
func idOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// keyNames makes the parts of keys that stand for names. They contain no slash.
var keyNames = storekit.Escaping{Plain: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:@+=,"}
