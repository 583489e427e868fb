package redisstore

import (
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// A lock has one key that other programs may know, and some companion keys that only padlock uses.
// All companion keys begin with companionPrefix, after the store's prefix.
//
// Usually, the key of a lock is the store's prefix and the name. For some names, such a key would
// look like the companion key of another lock. The key of these locks is the store's prefix,
// "padlock:{tag}n:" and the name. Other programs do not know this form.
//
// Permits and gates have keys of this form too. All permits and gates of a name have the same tag,
// so their keys are in one slot of a cluster.
const companionPrefix = "padlock:{"

// keyer makes the keys for names.
type keyer struct {
	prefix string
	tags   *[hashSlots][3]byte
}

// lock has the keys of one lock.
type lock struct {
	keys [6]string // in the order of KEYS in the full scripts; the fast scripts need the first two or four
	stem string    // "padlock:{tag}", with the prefix before it
}

func (k *keyer) lock(name string) lock {
	key := k.prefix + name
	whole := key
	base, _, permit := driver.SplitSlot(name)
	if permit {
		whole = k.prefix + base
	}
	tag := &k.tags[hashSlotOf(whole)]
	stem := k.prefix + companionPrefix + string(tag[:]) + "}"
	if permit || strings.HasPrefix(name, companionPrefix) || strings.HasPrefix(key, companionPrefix) {
		key = stem + "n:" + name
	}
	return lock{[6]string{key, stem + "f:" + name, stem + "h:" + name, stem + "q:" + name, stem + "b:" + name, stem + "x:" + name}, stem}
}

// seen refuses a name whose lock other programs would not see, because it looks like a companion
// key. With the option Foreign, such a lock would keep nobody out.
func (s *Store) seen(name string) error {
	if _, _, permit := driver.SplitSlot(name); s.config.foreign && !permit && strings.HasPrefix(s.keys.prefix+name, companionPrefix) {
		return invalid("name: it begins with %s, so other programs (foreign=yes) would not see the lock", companionPrefix)
	}
	return nil
}

// id is the key of the store's id. No lock uses this key, because all other keys that begin with
// companionPrefix have a tag of three letters.
func (k *keyer) id() string { return k.prefix + companionPrefix + "id}" }

// nameOf returns the name whose lock is kept at key. It returns false for companion keys and for
// keys outside of the prefix.
func (k *keyer) nameOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, k.prefix)
	if !ok || k.prefix != "" && strings.HasPrefix(key, companionPrefix) { // a key of a store without a prefix
		return "", false
	}
	rest, companion := strings.CutPrefix(name, companionPrefix)
	if !companion {
		return name, name != ""
	}
	if len(rest) < 6 || rest[3:6] != "}n:" {
		return "", false
	}
	return rest[6:], true
}

// checkPrefix refuses two kinds of prefixes. The first kind forms a hash tag together with the text
// after it. With such a prefix, the keys of one lock would be in several slots. The second kind
// begins with "padlock:". With such a prefix, a key of this store could be equal to a key that
// another store keeps for its own purposes.
func checkPrefix(prefix string) error {
	open := strings.IndexByte(prefix, '{')
	if len(prefix) > 256 {
		return invalid("prefix: it has %d bytes, at most 256 are allowed", len(prefix))
	}
	if open >= 0 && strings.IndexByte(prefix[open+1:], '}') <= 0 {
		return invalid("prefix: a { in it needs a } after it, with something between them")
	}
	if strings.HasPrefix(prefix, "padlock:") {
		return invalid("prefix: padlock's own keys begin with padlock:, so no prefix may")
	}
	return nil
}
