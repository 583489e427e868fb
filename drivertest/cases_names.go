package drivertest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

var nameCases = []testCase{
	{
		name:   "names/any-bytes",
		clause: "A name is bytes of any kind, including zero bytes, spaces, braces, slashes, newlines and invalid UTF-8; two names never share a lock.",
		f:      func(c *check) { c.takeAllNames(c.oddNames()) },
	},
	{
		name:   "names/alike",
		clause: "A name is never trimmed, folded or cleaned as a path, and never meets the store's own data about another name, a permit of it or their gate: names that look alike are different.",
		f:      func(c *check) { c.takeAllNames(lookalikes(c.newName())) },
	},
	{
		name:   "names/long",
		clause: "The longest names that Guarantees allow are never cut: two that differ in the last byte are different, whatever the bytes are.",
		f: func(c *check) {
			var names []string
			for _, filler := range []string{"x", "/", "\xff", "{", "\u65e5"} {
				n := c.newName()
				n += strings.Repeat(filler, max(0, c.maxName()-len(n)-1)/len(filler))
				n += strings.Repeat("y", max(0, c.maxName()-len(n)-1))
				names = append(names, n+"1", n+"2", n)
			}
			c.takeAllNames(names)
		},
	},
	{
		name:   "names/location",
		clause: "Location returns the same text for two names if, and only if, they share one lock, and ErrInvalid for a name that is not valid. Without Guarantees.Hashed no two names share a location.",
		needs:  []need{locates},
		f: func(c *check) {
			n := c.newName()
			if got, again := c.location(n), c.location(n); got != again {
				c.failf("one name has the locations %q and %q", got, again)
			}
			if c.location(n) == c.location(n+"2") {
				if !c.g.Hashed {
					c.failf("the names are not hashed, and %q and %q have one location", n, n+"2")
				}
				l := c.take(c.a, c.request(n), "of a free name")
				c.mustRefuse(c.b, c.request(n+"2"), "of a name with the same location", l)
			}
			v, _ := driver.As[driver.Places](c.a.store)
			_, err := v.Location("")
			if !errors.Is(err, driver.ErrInvalid) {
				c.failf("the Location of an empty name: want ErrInvalid, got %v", err)
			}
		},
	},
	{
		name:   "names/hashed",
		clause: "Two names never share a lock because a short hash of them is the same.",
		f:      func(c *check) { c.takeAllNames(collisions(c.newName())) },
	},
}

// oddNames returns names with bytes that stores have handled wrongly. The bytes are at the end of
// the name, and also at the beginning unless a prefix must come first.
func (c *check) oddNames() []string {
	odd := []string{
		"\x00", "a\x00b", " ", "a b", "\n", "a\nb", "\r\n", "\t", "{", "}", "{}", "{a}", "}{", "{a}{b}", "/", "//", ".", "..", "../..",
		"*", "?", "[a-z]", "%", "_", "%s", "%!d", "\\", "\\0", "'", "''", "\"", "`", ";--", "$1", ":", "::", "@", "#", "&", "=", "+", ",", "|", "<", ">",
		"\xff", "\xc3\x28", "\xed\xa0\x80", "\u00e9", "\u65e5\u672c", "\U0001f512", "\u202e", "\ufeff", "\ufffd", "\x7f", "\x1b[2J", "-rf", "~", "null", "__write__",
	}
	n := c.newName()
	var names []string
	for _, o := range odd {
		names = append(names, n+o)
	}
	if c.h.Prefix == "" {
		for _, o := range odd {
			names = append(names, o+n)
		}
	}
	return names
}

// lookalikes returns n and names that a store may take for n or for its own data about n.
func lookalikes(n string) []string {
	names := []string{n, n + n, "{" + n + "}", fast.SlotName(n, 0), fast.SlotName(n, 1), fast.SlotName(n, fast.MaxSlots-1), fast.SlotGate(n, 2), fast.SlotGate(n, 3)}
	for _, end := range []string{
		" ", "  ", "\x00", "\x00\x00", ".", "/", "\n", "\r\n", "\t", "\\",
		"job", "JOB", "Job", "\u00e9", "e\u0301", "\u00c9", "stra\u00dfe", "strasse", "\u0130", "\u0131", "\ufb01", "fi",
		"/b", "/b/c", "//b", "/./b", "/c/../b", "/../b", "/%2e/b", "%2Fb", "\\b", ":b",
	} {
		names = append(names, n+end)
	}
	for _, part := range []string{
		"f", "fence", "q", "queue", "w", "wait", "waiters", "h", "holder", "i", "intent", "lock", "cool", "meta", "token", "write", "data", "owner",
	} {
		names = append(names, n+":"+part, n+"."+part, "{"+n+"}:"+part)
	}
	return names
}

// location returns the place in which the store keeps the lock on name.
func (c *check) location(name string) string {
	v, _ := driver.As[driver.Places](c.a.store)
	at, err := v.Location(name)
	if err != nil {
		c.failf("Location: %v", err)
	}
	return at
}

// takeAllNames checks that no two of the names share a lock. It takes all names in one process at
// the same time, and checks that another process finds each name held. Then it releases the names
// one by one.
func (c *check) takeAllNames(names []string) {
	holds := make([]*lease, len(names))
	for i, n := range names {
		l, err := c.try(c.a, c.request(n))
		if err != nil {
			c.failf("Acquire of %s, which is free, while names like it are held: %v", shortName(n), err)
		}
		holds[i] = l
	}
	for _, l := range holds {
		c.mustRefuse(c.b, c.request(l.req.Name), "of "+shortName(l.req.Name)+", which another process holds", l)
	}
	for i, l := range holds {
		c.releaseFreely(l)
		if i+1 < len(holds) {
			c.verify(holds[i+1], "of "+shortName(holds[i+1].req.Name)+" after the release of "+shortName(l.req.Name))
		}
	}
}

// collisions returns pairs of names with equal 32-bit hashes. All names begin with stem. There is a
// pair for each of several hashes that programs use to turn names into numbers.
func collisions(stem string) (names []string) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, h := range []hash.Hash32{crc32.NewIEEE(), adler32.New(), crc32.New(castagnoli), fnv.New32(), fnv.New32a()} {
		p := collide(stem, h)
		names = append(names, p[0], p[1])
	}
	return names
}

// collide tries endings of one length until two names have the same hash. By the birthday paradox,
// that takes about 80,000 endings. The table remembers only the last ending of each bucket, so
// collide may overlook a pair. It then continues until it finds another pair.
func collide(stem string, h hash.Hash32) [2]string {
	table := make([]uint32, 1<<17)
	name := append([]byte(stem), make([]byte, 16)...)
	// sum makes the i-th name and returns its hash. The multiplication makes the endings look
	// random. With endings that count up, a linear hash such as CRC-32 would give each ending a
	// different value, and none would collide.
	sum := func(i uint32) uint32 {
		hex.Encode(name[len(stem):], binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15))
		h.Reset()
		h.Write(name)
		return h.Sum32()
	}
	for i := uint32(1); ; i++ {
		at := sum(i)
		bucket := &table[at>>15]
		if j := *bucket; j != 0 && sum(j) == at {
			other := string(name)
			sum(i)
			return [2]string{string(name), other}
		}
		*bucket = i
	}
}
