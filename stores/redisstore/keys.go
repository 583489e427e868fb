package redisstore

import (
	"strings"
	"sync"

	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit"
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
	base, _, permit := fast.SplitSlot(name)
	if permit {
		whole = k.prefix + base
	}
	tag := &k.tags[hashSlotOf(whole)]
	stem := k.prefix + companionPrefix + string(tag[:]) + "}"
	if permit || strings.HasPrefix(name, companionPrefix) || strings.HasPrefix(key, companionPrefix) {
		key = stem + "n:" + name
	}
	// The companion keys are equally long, and share their memory.
	all := stem + "f:" + name + stem + "h:" + name + stem + "q:" + name + stem + "b:" + name + stem + "x:" + name
	n := len(all) / 5
	return lock{[6]string{key, all[:n], all[n : 2*n], all[2*n : 3*n], all[3*n : 4*n], all[4*n:]}, stem}
}

// seen refuses a name whose lock other programs would not see, because it looks like a companion
// key. With the option Foreign, such a lock would keep nobody out.
func (s *Store) seen(name string) error {
	if _, _, permit := fast.SplitSlot(name); s.config.foreign && !permit && strings.HasPrefix(s.keys.prefix+name, companionPrefix) {
		return storekit.Invalidf("name: it begins with %s, so other programs (foreign=yes) would not see the lock", companionPrefix)
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
		return storekit.Invalidf("prefix: it has %d bytes, at most 256 are allowed", len(prefix))
	}
	if open >= 0 && strings.IndexByte(prefix[open+1:], '}') <= 0 {
		return storekit.Invalidf("prefix: a { in it needs a } after it, with something between them")
	}
	if strings.HasPrefix(prefix, "padlock:") {
		return storekit.Invalidf("prefix: padlock's own keys begin with padlock:, so no prefix may")
	}
	return nil
}

// A cluster keeps a key in the slot that is the CRC16 (XMODEM) of its hash tag. The hash tag is the
// text between the first { and the next }, or the whole key if there is no such text. All keys of a
// lock must be in one slot. So each companion key contains a hash tag of three letters that belongs
// to the slot of the lock's key. A table has such a tag for each slot. Single servers use the same
// keys.

const hashSlots = 16384

var crcTable = sync.OnceValue(func() *[256]uint16 {
	var table [256]uint16
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return &table
})

func crc16(s string) uint16 {
	table := crcTable()
	var crc uint16
	for i := range len(s) {
		crc = crc<<8 ^ table[byte(crc>>8)^s[i]]
	}
	return crc
}

// hashSlotOf is the slot of a key.
func hashSlotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return crc16(key) % hashSlots
}

const tagLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"

// hashSlotTags has a hash tag for each slot of a cluster: the first text of three letters whose
// hash gives that slot. There is such a text for every slot. The table is made once, in about 2 ms.
var hashSlotTags = sync.OnceValue(func() *[hashSlots][3]byte {
	var tags [hashSlots][3]byte
	table := crcTable()
	missing := hashSlots
	for i := 0; missing > 0 && i < len(tagLetters)*len(tagLetters)*len(tagLetters); i++ {
		word := [3]byte{tagLetters[i>>12], tagLetters[i>>6&63], tagLetters[i&63]}
		var crc uint16
		for _, b := range word {
			crc = crc<<8 ^ table[byte(crc>>8)^b]
		}
		if slot := crc % hashSlots; tags[slot][0] == 0 {
			tags[slot] = word
			missing--
		}
	}
	return &tags
})
