package storekit

import "strings"

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
	const digits = "0123456789ABCDEF"
	var b []byte
	for i := range len(name) {
		c := name[i]
		plain := e.isPlain(c, i == 0)
		if plain && b == nil {
			continue
		}
		if b == nil {
			b = append(make([]byte, 0, len(name)+8), name[:i]...)
		}
		if plain {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	if b == nil {
		return name
	}
	return string(b)
}

func (e Escaping) isPlain(c byte, first bool) bool {
	return c != '%' && strings.IndexByte(e.Plain, c) >= 0 && !(first && strings.IndexByte(e.NotFirst, c) >= 0)
}

// Unescape returns the name of a key. If the key is not one that Escape makes of a name, ok is
// false: other programs may have keys in the same place.
func (e Escaping) Unescape(key string) (name string, ok bool) {
	b := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if key[i] != '%' {
			b = append(b, key[i])
			continue
		}
		if i+2 >= len(key) {
			return "", false
		}
		high, low := digit(key[i+1]), digit(key[i+2])
		b, i = append(b, high<<4|low), i+2
	}
	name = string(b)
	return name, name != "" && e.Escape(name) == key
}

// digit returns the value of a hexadecimal digit, or any value for another byte. Unescape compares
// its result with the key.
func digit(c byte) byte {
	if c >= 'A' {
		return (c - 'A' + 10) & 15
	}
	return (c - '0') & 15
}
