package etcdstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// kind is the letter in a key that says what the key stands for. The order of the letters makes one
// range of all keys that keep a reader out, and another range of all keys that keep a writer out.
//
//	key                  stands for
//	PREFIX l/NAME/a/SLOT   a place in the queue
//	PREFIX l/NAME/c/LEASE  a cool-down, or the at-least time of a hold, which becomes a cool-down
//	PREFIX l/NAME/i/SLOT   the intent of a reader to be promoted
//	PREFIX l/NAME/k/       the exclusive hold
//	PREFIX l/NAME/r/SLOT   a shared hold
//	PREFIX l/NAME/s/LEASE  a cool-down that a reader left; it lets other readers in
//	PREFIX f/NAME          the last fence of the name
//	PREFIX id              the id of the store
//
// Until its history is compacted, the server keeps every key that was ever deleted, and a
// comparison with a range passes them all. So keys are used again: the exclusive hold has one key,
// and each store has slots of its own for its places and shared holds. A slot is the random number
// of the store and a small number. The value of a key says which token it stands for, by a hash of
// the token. A store that knew a key may find that another hold has it now. So each write and each
// deletion compares the revision at which the key was created or last written.
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

// key returns a key of the name. The last part is a slot, the number of a lease, or "".
func (p *place) key(k kind, last string) string { return p.dir + string(rune(k)) + "/" + last }

func (p *place) end() string { return p.dir[:len(p.dir)-1] + "0" }

func (p *place) after(k kind) string { return p.dir + string(rune(k+1)) }

// slot returns the name of a slot of a store.
func slot(store string, n int) string { return store + "-" + strconv.Itoa(n) }

// queue returns the range of the keys of all waiters.
func (p *place) queue() (from, to string) { return p.dir + string(rune(waiting)), p.after(waiting) }

// blockingKeys returns the range of all keys that keep a caller out, except those of the queue.
func (p *place) blockingKeys(forReaders bool) (from, to string) {
	if forReaders {
		return p.after(waiting), p.after(exclusive)
	}
	return p.after(waiting), p.end()
}

// idOf returns the ID by which values name a token, so that the server does not have the token.
func idOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
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
