package etcdstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// kind is the letter in a key that says what the key stands for. The order of the letters makes one
// range of all keys that keep a reader out, and another range of all keys that keep a writer out.
//
//	key                  stands for
//	PREFIX l/NAME/a/ID   a place in the queue
//	PREFIX l/NAME/c/ID   a cool-down, or the at-least time of a hold, which becomes a cool-down
//	PREFIX l/NAME/i/ID   the intent of a reader to be promoted
//	PREFIX l/NAME/k/ID   an exclusive hold
//	PREFIX l/NAME/r/ID   a shared hold
//	PREFIX l/NAME/s/ID   a cool-down that a reader left; it lets other readers in
//	PREFIX f/NAME        the last fence of the name
//	PREFIX id            the id of the store
//
// The ID of a cool-down is the number of its lease. Every other ID is a hash of a token, so that
// the keys do not show tokens.
type kind byte

const (
	waiting   kind = 'a'
	cooling   kind = 'c'
	intending kind = 'i'
	exclusive kind = 'k'
	shared    kind = 'r'
	coolingRd kind = 's'
)

// A place says where the keys of one name are.
type place struct {
	dir   string // ends with a slash
	fence string
}

func (c *config) place(name string) place {
	escaped := escape(name)
	return place{dir: c.prefix + "l/" + escaped + "/", fence: c.prefix + "f/" + escaped}
}

func (p *place) key(k kind, id string) string { return p.dir + string(rune(k)) + "/" + id }

func (p *place) end() string { return p.dir[:len(p.dir)-1] + "0" }

func (p *place) after(k kind) string { return p.dir + string(rune(k+1)) }

// queue returns the range of the keys of all waiters.
func (p *place) queue() (from, to string) { return p.dir + string(rune(waiting)), p.after(waiting) }

// taken returns the range of all keys that keep a caller out, except those of the queue.
func (p *place) taken(forReaders bool) (from, to string) {
	if forReaders {
		return p.after(waiting), p.after(exclusive)
	}
	return p.after(waiting), p.end()
}

// empty returns a comparison that is true if the range has no key.
func empty(from, to string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(from).WithRange(to), "=", 0)
}

// still returns a comparison that is true if the key exists and was created at the given revision.
func still(key string, created int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", created)
}

// idOf returns the part of a key that stands for a token.
func idOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}

const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:@+=,"

// escape writes every byte that is not plain as %XX. The result has no slash. If a name begins with
// a text, the escaped name begins with the escaped text.
func escape(name string) string {
	n := 0
	for i := range len(name) {
		if strings.IndexByte(plain, name[i]) < 0 {
			n++
		}
	}
	if n == 0 {
		return name
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(name)+2*n)
	for i := range len(name) {
		if c := name[i]; strings.IndexByte(plain, c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// unescape reverses escape. It returns false for a text that escape does not make.
func unescape(text string) (string, bool) {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b = append(b, text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		c, err := hex.DecodeString(text[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b = append(b, c[0])
		i += 2
	}
	return string(b), escape(string(b)) == text
}
