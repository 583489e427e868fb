package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// idBytes is the number of random bytes in an id: 256 bits, so that nobody guesses an id and no id
// is made twice.
const idBytes = 32

// ownRules are the rules for sessions that only padlock uses.
type ownRules struct{}

// NewID makes an id from the system's generator.
func (ownRules) NewID() string {
	var raw [idBytes]byte
	rand.Read(raw[:])
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func (ownRules) ValidID(id string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return len(id) == base64.RawURLEncoding.EncodedLen(idBytes) && err == nil && len(raw) == idBytes
}

// Key does not reveal the id.
func (ownRules) Key(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (ownRules) Lock(key string) string { return "session:" + key }

func (r ownRules) ShownLock(key string) string { return r.Lock(key) }

func (ownRules) CheckKey(string) error { return nil }
