package redisstore

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/redis/rueidis"
)

// oddNames are names for which it is easy to make wrong keys.
var oddNames = []string{
	"a", "{a}b", "{}x", "a{b", "a}b{c}d", "{a", "é{{x}}", "}{", "{", "}", "{}", "{}{a}", "a\x00b", " ", "a b", "\n",
	"a\x1fslot:0", "a\x1fslot:1023", "a\x1fslots:3", "{a}\x1fslot:0", "a{\x1fslot:0", "a}b{c}d\x1fslot:1", "padlock:{\x1fslot:0", "padlock:{000}n:x\x1fslot:0",
	"a\x1fslot:0\x1fslot:0", "a\x1fslot:1024", "a\x1fslot:00", "\x1fslot:0",
	"padlock:{", "padlock:{000}f:x", "padlock:{000}n:x", "padlock:{}x", strings.Repeat("x", driver.MaxName), strings.Repeat("{", driver.MaxName),
}

// TestSlotTags finds a tag for every slot, and compares the slots of keys with those of a server.
func TestSlotTags(t *testing.T) {
	t.Parallel()
	seen := map[[3]byte]bool{}
	for slot, tag := range hashSlotTags() {
		if got := hashSlotOf("{" + string(tag[:]) + "}whatever"); int(got) != slot || seen[tag] {
			t.Fatalf("the tag %q of slot %d lies in slot %d", tag, slot, got)
		}
		seen[tag] = true
	}
	srv := server.Redis(t, server.RedisOptions{Cluster: true})
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k := keyer{"", hashSlotTags()}
	for _, name := range oddNames {
		for _, key := range append(k.lockKeys(name), name) {
			n, err := c.Do(context.Background(), c.B().ClusterKeyslot().Key(key).Build()).AsInt64()
			if err != nil || n != int64(hashSlotOf(key)) {
				t.Errorf("CLUSTER KEYSLOT %q is %d, %v; hashSlotOf says %d", key, n, err, hashSlotOf(key))
			}
		}
	}
}

func (k *keyer) lockKeys(name string) []string {
	l := k.lock(name)
	return l.keys[:]
}

// TestKeys checks that the keys of a name are in one slot, that no key belongs to two names, and
// that the name can be read from its key.
func TestKeys(t *testing.T) {
	for _, prefix := range []string{"", "app:", "{app}:", "a}b", "padlock"} {
		if err := checkPrefix(prefix); err != nil {
			t.Fatal(err)
		}
		k := keyer{prefix, hashSlotTags()}
		owner := map[string]string{}
		for _, name := range oddNames {
			keys := k.lockKeys(name)
			for i, key := range keys {
				if other, taken := owner[key]; taken {
					t.Errorf("prefix %q: the key %q belongs to %q and to %q", prefix, key, other, name)
				}
				owner[key] = name
				if hashSlotOf(key) != hashSlotOf(keys[0]) {
					t.Errorf("prefix %q: %q lies in another slot than %q", prefix, key, keys[0])
				}
				got, isName := k.nameOf(key)
				if isName != (i == 0) || isName && got != name {
					t.Errorf("prefix %q: nameOf(%q) is %q, %v", prefix, key, got, isName)
				}
			}
		}
	}
	for _, prefix := range []string{"{", "a{", "a{}", "}{", strings.Repeat("x", 257), "padlock:", "padlock:a", "padlock:{a}", "padlock:{000}f:"} {
		if checkPrefix(prefix) == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
}

// TestKeysOfOtherPrefixes checks that no name of a store with a prefix has a key of a store without
// one.
func TestKeysOfOtherPrefixes(t *testing.T) {
	const theirs = "padlock:{000}q:job" // a sorted set, as locks are
	bare := keyer{"", hashSlotTags()}
	for i := 1; i < len(theirs); i++ {
		prefix, name := theirs[:i], theirs[i:]
		if checkPrefix(prefix) != nil {
			continue
		}
		k := keyer{prefix, hashSlotTags()}
		for _, key := range k.lockKeys(name) {
			if strings.HasPrefix(key, companionPrefix) {
				t.Errorf("prefix %q: the key %q of %q is one of padlock's own without a prefix", prefix, key, name)
			}
		}
		if name, isName := k.nameOf(theirs); isName {
			t.Errorf("prefix %q: a companion of another store is taken for the name %q", prefix, name)
		}
		if got, isName := k.nameOf(k.lock(name).keys[0]); !isName || got != name {
			t.Errorf("prefix %q: the key of %q is taken for %q, %v", prefix, name, got, isName)
		}
	}
	for _, name := range oddNames {
		if _, isName := bare.nameOf(theirs); isName {
			t.Errorf("a companion key is taken for the name %q", name)
		}
	}
}

func TestGlob(t *testing.T) {
	if got, want := glob(`a*b?[c]\d^e-f`), `a\*b\?\[c\]\\d\^e\-f`; got != want {
		t.Errorf("glob is %q, want %q", got, want)
	}
}

// TestFormats checks the texts in which scripts get holders and leases.
func TestFormats(t *testing.T) {
	for i := range 3 {
		h := driver.Holder{Host: "h", PID: i, Label: "é\x00\n"}
		if got := readHolder(holderText(&h)); got != h {
			t.Errorf("a holder comes back as %+v, it was %+v", got, h)
		}
		d := driver.MinTTL * 3 / 2 * (1 + 2*1000*1000)
		if got := millis(d + 1); got != strconv.FormatInt(d.Milliseconds()+1, 10) {
			t.Errorf("a lease of %v is written %s ms", d+1, got)
		}
	}
	if h := readHolder("not JSON"); h != (driver.Holder{}) {
		t.Errorf("what is no holder is read as %+v", h)
	}
	if got := counted(strings.Repeat("t", 128)); got[:3] != "128" {
		t.Errorf("a token of 128 bytes begins %q", got[:3])
	}
}

// TestSlotsOfNames checks that the permits of a name, their gates and the name itself are in one
// slot of a cluster.
func TestSlotsOfNames(t *testing.T) {
	for _, prefix := range []string{"", "app:", "{app}:", "a}b"} {
		k := keyer{prefix, hashSlotTags()}
		for _, name := range oddNames {
			if len(name) > driver.MaxName-11 {
				continue
			}
			want := hashSlotOf(k.lock(name).keys[0])
			if _, _, permit := fast.SplitSlot(name); permit { // permits of a permit share a slot with each other only
				want = hashSlotOf(k.lock(fast.SlotName(name, 7)).keys[0])
			}
			for _, derived := range []string{fast.SlotName(name, 0), fast.SlotName(name, 1023), fast.SlotGate(name, 3)} {
				for _, key := range k.lockKeys(derived) {
					if got := hashSlotOf(key); got != want {
						t.Errorf("prefix %q: %q is in the slot %d, its name is in %d", prefix, key, got, want)
					}
				}
			}
		}
	}
}
