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

// lock has the key of one lock, and the beginning of its companion keys.
type lock struct {
	key  string // as other programs see it
	stem string // "padlock:{tag}", with the prefix before it
	name string
}

func (k *keyer) lock(name string) lock {
	key := name
	if k.prefix != "" {
		key = k.prefix + name
	}
	whole := key
	base, _, permit := driver.SplitSlot(name)
	if permit {
		whole = k.prefix + base
	}
	tag := &k.tags[hashSlotOf(whole)]
	l := lock{key: key, name: name}
	l.stem = k.prefix + companionPrefix + string(tag[:]) + "}"
	if permit || strings.HasPrefix(name, companionPrefix) || strings.HasPrefix(key, companionPrefix) {
		l.key = l.stem + "n:" + name
	}
	return l
}

// valid checks a request for a lock. Other programs do not see a lock whose name looks like a
// companion key. So with the option Foreign, such a lock would keep nobody out.
func (s *Store) valid(r *driver.Request) error {
	if s.config.foreign && strings.HasPrefix(s.keys.prefix+r.Name, companionPrefix) && !isSlot(r.Name) {
		return invalid("name: it begins with %s, so other programs (foreign=yes) would not see the lock", companionPrefix)
	}
	return r.Validate(&s.guarantees)
}

func (k *keyer) key(name string) string {
	if k.plain(name) {
		return name
	}
	return k.lock(name).key
}

// isSlot reports whether a name is that of a permit or of a gate.
func isSlot(name string) bool {
	_, _, ok := driver.SplitSlot(name)
	return ok
}

// plain reports whether the key of a name is the name itself.
func (k *keyer) plain(name string) bool {
	return k.prefix == "" && !strings.HasPrefix(name, companionPrefix) && !isSlot(name)
}

// pair makes the two keys that the fast scripts need. The method called lock could make them too,
// but it needs one more allocation.
func (k *keyer) pair(name string) (key, note string) {
	var b strings.Builder
	return k.pairIn(&b, name)
}

// pairIn does the same as pair, but builds the new texts in b. A caller with many names passes the
// same b each time, which saves allocations.
func (k *keyer) pairIn(b *strings.Builder, name string) (key, note string) {
	if !k.plain(name) {
		l := k.lock(name)
		return l.key, l.stem + "f:" + name
	}
	tag := &k.tags[hashSlotOf(name)]
	begin := b.Len()
	b.Grow(len(companionPrefix) + len(tag) + len("}f:") + len(name))
	b.WriteString(companionPrefix)
	b.Write(tag[:])
	b.WriteString("}f:")
	b.WriteString(name)
	return name, b.String()[begin:]
}

// allKeys returns the keys in the order of KEYS in the full scripts.
func (l lock) allKeys() [6]string {
	return [6]string{
		l.key, l.stem + "f:" + l.name, l.stem + "h:" + l.name,
		l.stem + "q:" + l.name, l.stem + "b:" + l.name, l.stem + "x:" + l.name,
	}
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
