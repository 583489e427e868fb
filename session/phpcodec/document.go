package phpcodec

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Handler is a value of session.serialize_handler.
type Handler string

// The handlers that PHP brings.
const (
	PHP          Handler = "php"           // key|value key|value …; the default of PHP
	PHPSerialize Handler = "php_serialize" // one array
	PHPBinary    Handler = "php_binary"    // length of the key, key, value
)

// maxBinaryKey is the longest key of php_binary.
const maxBinaryKey = 127

// A Document is a session: keys and serialised values, in order. It is not for
// concurrent use.
type Document struct {
	handler Handler
	entries []entry
	index   map[string]int
}

type entry struct {
	key string
	raw []byte
	spanInfo
}

// spanInfo is what matters to references.
type spanInfo struct {
	slots  int
	refs   []int
	opaque bool
}

// New returns an empty session. It panics if the handler is none of those
// above.
func New(h Handler) *Document {
	if h != PHP && h != PHPSerialize && h != PHPBinary {
		panic("phpcodec: there is no session.serialize_handler " + strconv.Quote(string(h)))
	}
	return &Document{handler: h, index: make(map[string]int)}
}

// Parse reads a session. Empty data is an empty session. The document keeps
// data, which must not be changed.
func Parse(h Handler, data []byte) (*Document, error) {
	d := New(h)
	switch {
	case len(data) > MaxSize:
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrSyntax, len(data), MaxSize)
	case bytes.HasPrefix(data, []byte{0, 0, 0, 1}), bytes.HasPrefix(data, []byte{0, 0, 0, 2}):
		return nil, ErrIgbinary
	case len(data) == 0:
		return d, nil
	case h == PHPSerialize:
		return d, d.parseArray(data)
	}
	s := &scanner{data: data}
	for s.pos < len(data) {
		key, err := d.parseKey(s)
		if err == nil {
			err = d.parseEntry(s, key)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Document) parseKey(s *scanner) (string, error) {
	n := 0
	if d.handler == PHP {
		if n = bytes.IndexByte(s.data[s.pos:], '|'); n < 0 {
			return "", s.fail("a key without |")
		}
		key := string(s.data[s.pos : s.pos+n])
		s.pos += n + 1
		return key, nil
	}
	if n = int(s.data[s.pos]); n > maxBinaryKey || n > len(s.data)-s.pos-1 {
		return "", s.fail("a key beyond the end")
	}
	key := string(s.data[s.pos+1 : s.pos+1+n])
	s.pos += n + 1
	return key, nil
}

// parseEntry reads the value of a key.
func (d *Document) parseEntry(s *scanner, key string) error {
	if _, twice := d.index[key]; twice {
		return s.fail("a key twice")
	}
	if len(d.entries) == MaxKeys {
		return s.fail("too many keys")
	}
	one := scanner{data: s.data, pos: s.pos}
	if d.handler == PHPSerialize {
		one.depth = 1
	}
	if err := one.value(); err != nil {
		return err
	}
	d.index[key] = len(d.entries)
	d.entries = append(d.entries, entry{key, s.data[s.pos:one.pos:one.pos], spanInfo{one.slots, one.refs, one.opaque}})
	s.pos = one.pos
	return nil
}

func (d *Document) parseArray(data []byte) error {
	s := &scanner{data: data}
	if err := s.expect("a:"); err != nil {
		return err
	}
	n, err := s.count()
	if err == nil {
		err = s.expect("{")
	}
	for i := 0; i < n && err == nil; i++ {
		var key string
		if key, err = s.key(); err == nil {
			err = d.parseEntry(s, key)
		}
	}
	if err == nil {
		err = s.expect("}")
	}
	if err == nil && s.pos != len(data) {
		err = s.fail("something follows the session")
	}
	return err
}

// Len counts the keys.
func (d *Document) Len() int { return len(d.entries) }

// At returns key and serialised value number i. The bytes must not be changed.
func (d *Document) At(i int) (key string, raw []byte) { return d.entries[i].key, d.entries[i].raw }

// Get returns the serialised value of key. The bytes must not be changed.
func (d *Document) Get(key string) (raw []byte, ok bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.entries[i].raw, true
}

// Set changes the value of key in its place, or adds it at the end. raw is one
// serialised value without references: what Marshal returns. The document
// keeps raw. ErrKey, ErrSyntax, ErrReferences; then nothing was changed.
func (d *Document) Set(key string, raw []byte) error {
	if err := CheckKey(d.handler, key); err != nil {
		return err
	}
	s, err := whole(raw)
	if err != nil {
		return err
	}
	info := spanInfo{s.slots, s.refs, s.opaque}
	i, ok := d.index[key]
	switch {
	case ok && bytes.Equal(d.entries[i].raw, raw):
		return nil
	case len(info.refs) > 0:
		return fmt.Errorf("%w: the new value of %q", ErrReferences, key)
	case !ok:
		d.index[key] = len(d.entries)
		d.entries = append(d.entries, entry{key, raw, info})
		return nil
	case d.entries[i].raw[0] == 'R':
		// To PHP this is the same variable as another.
		return fmt.Errorf("%w: key %q", ErrReferences, key)
	}
	if err := d.mayChange(i, info.slots); err != nil {
		return err
	}
	d.entries[i] = entry{key, raw, info}
	return nil
}

// Delete removes key, if it is there. ErrReferences.
func (d *Document) Delete(key string) error {
	i, ok := d.index[key]
	if !ok {
		return nil
	}
	if err := d.mayChange(i, 0); err != nil {
		return err
	}
	d.entries = slices.Delete(d.entries, i, i+1)
	delete(d.index, key)
	for j := i; j < len(d.entries); j++ {
		d.index[d.entries[j].key] = j
	}
	return nil
}

// mayChange tells whether entry i can have another value, with so many slots,
// without any reference pointing elsewhere. References point back, so only
// those of later entries matter.
func (d *Document) mayChange(i, slots int) error {
	later := d.entries[i+1:]
	bound := fmt.Errorf("%w: key %q", ErrReferences, d.entries[i].key)
	from, known := 1, true
	if d.handler == PHPSerialize {
		from = 2 // the array itself is 1
	}
	for j := range d.entries[:i+1] {
		known = known && !d.entries[j].opaque
		if j < i {
			from += d.entries[j].slots
		}
	}
	to := from + d.entries[i].slots
	for j := range later {
		if later[j].opaque && slots != d.entries[i].slots {
			return bound // who knows what it counts
		}
		for _, ref := range later[j].refs {
			if !known || ref >= from && (ref < to || slots != d.entries[i].slots) {
				return bound
			}
		}
	}
	return nil
}

// Encode returns the session as PHP stores it.
func (d *Document) Encode() ([]byte, error) {
	var b []byte
	if d.handler == PHPSerialize {
		if len(d.entries) == 0 {
			return []byte("a:0:{}"), nil
		}
		b = fmt.Appendf(b, "a:%d:{", len(d.entries))
	}
	for i := range d.entries {
		e := &d.entries[i]
		switch d.handler {
		case PHP:
			b = append(append(b, e.key...), '|')
		case PHPBinary:
			b = append(append(b, byte(len(e.key))), e.key...)
		default:
			b = appendKey(b, e.key)
		}
		b = append(b, e.raw...)
	}
	if d.handler == PHPSerialize {
		b = append(b, '}')
	}
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrSyntax, len(b), MaxSize)
	}
	return b, nil
}

// appendKey writes a key as PHP's arrays have it: text of an integer is one.
func appendKey(b []byte, key string) []byte {
	if isInteger(key) {
		return append(append(append(b, "i:"...), key...), ';')
	}
	return appendString(b, key)
}

// isInteger tells whether PHP makes an integer of a key.
func isInteger(key string) bool {
	n, err := strconv.ParseInt(key, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == key
}

// CheckKey answers ErrKey if sessions of this handler cannot hold key. PHP
// loses integer keys with php and php_binary, and one key with a "|" makes it
// lose the whole session with php.
func CheckKey(h Handler, key string) error {
	switch {
	case h == PHPSerialize:
		return nil
	case key == "" || isInteger(key):
		return fmt.Errorf("%w: %q: %s drops empty and integer keys", ErrKey, key, h)
	case h == PHP && strings.Contains(key, "|"):
		return fmt.Errorf("%w: %q: php cannot hold a key with |", ErrKey, key)
	case h == PHPBinary && len(key) > maxBinaryKey:
		return fmt.Errorf("%w: %d bytes, php_binary holds at most %d", ErrKey, len(key), maxBinaryKey)
	}
	return nil
}
