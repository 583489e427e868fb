package storekit

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Escaping makes keys of names, for a server that does not take every byte in a key. Two names
// never have the same key, and if a name begins with some text, its key begins with the key of that
// text. A store must not change its Escaping: the keys are its format.
type Escaping struct {
	// Plain are the bytes of a name that stand for themselves. Every other byte becomes %XX. The
	// percent sign is never plain.
	Plain string
	// NotFirst are bytes of Plain that are escaped at the beginning of a name, such as a dot.
	NotFirst string
}

// ObjectKeys makes keys that every object storage takes, and that stand in the path of a URL.
var ObjectKeys = Escaping{
	Plain:    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.",
	NotFirst: ".",
}

// Escape returns the key of a name.
func (e Escaping) Escape(name string) string {
	escaped := func(r rune) bool { return r >= utf8.RuneSelf || !e.isPlain(byte(r), false) }
	if name == "" || e.isPlain(name[0], true) && !strings.ContainsFunc(name, escaped) {
		return name
	}
	var key strings.Builder
	for i := range len(name) {
		if c := name[i]; e.isPlain(c, i == 0) {
			key.WriteByte(c)
		} else {
			fmt.Fprintf(&key, "%%%02X", c)
		}
	}
	return key.String()
}

func (e Escaping) isPlain(c byte, first bool) bool {
	return c != '%' && strings.IndexByte(e.Plain, c) >= 0 && !(first && strings.IndexByte(e.NotFirst, c) >= 0)
}

// Unescape returns the name of a key. If the key is not one that Escape makes of a name, ok is
// false: other programs may have keys in the same place.
func (e Escaping) Unescape(key string) (name string, ok bool) {
	name, err := url.PathUnescape(key)
	return name, err == nil && name != "" && e.Escape(name) == key
}
