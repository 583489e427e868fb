package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// idBytes is the number of random bytes in an id: 256 bits, so that nobody guesses an id and no id
// is made twice.
const idBytes = 32

// idRules say what ids look like and which keys the sessions have in the store.
type idRules struct {
	php    bool
	prefix string // of the keys of sessions
	suffix string // of the names of locks
}

// newID makes an id from the system's generator.
func (r *idRules) newID() string {
	var raw [idBytes]byte
	rand.Read(raw[:])
	if r.php {
		return hex.EncodeToString(raw[:]) // PHP allows these letters
	}
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// valid reports whether id has the form of an id. The Manager asks the store only for valid ids.
func (r *idRules) valid(id string) bool {
	if r.php {
		return len(id) >= 22 && len(id) <= 256 && strings.Trim(id, phpIDLetters) == ""
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return len(id) == base64.RawURLEncoding.EncodedLen(idBytes) && err == nil && len(raw) == idBytes
}

const phpIDLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,-"

// key returns the key of the session in the store. Keys do not reveal ids, except in PHP mode,
// where the key is PHP's.
func (r *idRules) key(id string) string {
	if r.php {
		return r.prefix + id
	}
	sum := sha256.Sum256([]byte(id))
	return r.prefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// lock returns the name of a session's lock.
func (r *idRules) lock(key string) string {
	if r.php {
		return key + r.suffix
	}
	return "session:" + key
}

// redacted returns the lock's name for logs and answers. In PHP mode the name holds the id; the
// beginning of the id is enough to find the key.
func (r *idRules) redacted(key string) string {
	const show = 6
	if id, ok := strings.CutPrefix(key, r.prefix); ok && r.php && len(id) > show {
		return r.prefix + id[:show] + "…" + r.suffix
	}
	return r.lock(key)
}

// shownName returns the name of a lock for the log of its Locker.
func (r *idRules) shownName(name string) string {
	if key, ok := strings.CutSuffix(name, r.suffix); ok && r.php && strings.HasPrefix(key, r.prefix) {
		return r.redacted(key)
	}
	return name
}
