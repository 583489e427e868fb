package phpcodec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Handler is a value of session.serialize_handler.
type Handler string

// The handlers that are part of PHP.
const (
	PHP          Handler = "php"           // key|value key|value …; the default of PHP
	PHPSerialize Handler = "php_serialize" // one array
	PHPBinary    Handler = "php_binary"    // length of the key, key, value
)

// maxBinaryKey is the maximum length of a key in php_binary.
const maxBinaryKey = 127

// A Document is a session: keys and serialised values, in order. It is not safe for concurrent use.
//
// If the session has no references, the cost of an edit does not grow with the number of keys. If
// it has references, an edit looks at each value.
type Document struct {
	handler Handler
	entries []entry
	index   map[string]int
	holes   int  // number of deleted entries
	refs    bool // an entry has or had references (see mayHaveRefs)
}

// entry is a key and its value. A deleted entry stays in the list, empty, until compact removes it.
type entry struct {
	key string
	raw []byte // nil if deleted
	spanInfo
}

// spanInfo describes the references in a value.
type spanInfo struct {
	slots   int
	refs    []int
	opaque  bool
	objects bool // the value is or contains an object
}

// New returns an empty session. It panics if the handler is not one of the constants above.
func New(h Handler) *Document {
	if h != PHP && h != PHPSerialize && h != PHPBinary {
		panic("phpcodec: there is no session.serialize_handler " + strconv.Quote(string(h)))
	}
	return &Document{handler: h, index: make(map[string]int)}
}

// Parse reads a session. If there are no bytes, the session is empty. The Document refers to the
// bytes, so the caller must not change them later.
func Parse(h Handler, data []byte) (*Document, error) {
	d := New(h)
	switch {
	case len(data) > MaxSize:
		return nil, tooLarge(len(data))
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
		if hasControl(key) {
			return "", s.fail("a key with control characters, as in a compressed session")
		}
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

// parseEntry reads the value that follows a key.
func (d *Document) parseEntry(s *scanner, key string) error {
	if _, twice := d.index[key]; twice {
		return s.fail("a key twice")
	}
	if len(d.index) == MaxKeys {
		return tooManyKeys()
	}
	one := scanner{data: s.data, pos: s.pos, depth: d.depth()}
	if err := one.value(); err != nil {
		return err
	}
	d.add(entry{key, s.data[s.pos:one.pos:one.pos], one.info()})
	s.pos = one.pos
	return nil
}

// depth returns the number of arrays around each value.
func (d *Document) depth() int {
	if d.handler == PHPSerialize {
		return 1
	}
	return 0
}

func (d *Document) add(e entry) {
	d.index[e.key] = len(d.entries)
	d.entries = append(d.entries, e)
	d.refs = d.refs || e.mayHaveRefs()
}

// mayHaveRefs reports whether e contains references, or may contain references that cannot be read.
// Because of such an entry, mayChange refuses some changes of other entries.
func (e *entry) mayHaveRefs() bool { return len(e.refs) > 0 || e.opaque }

// putEntry changes entry i.
func (d *Document) putEntry(i int, e entry) {
	d.entries[i] = e
	d.refs = d.refs || e.mayHaveRefs()
}

// compact removes the deleted entries.
func (d *Document) compact() {
	if d.holes == 0 {
		return
	}
	all := d.entries
	d.entries, d.refs, d.holes = all[:0], false, 0
	for _, e := range all {
		if e.raw != nil {
			d.add(e)
		}
	}
	clear(all[len(d.entries):])
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
func (d *Document) Len() int { return len(d.index) }

// At returns the key and the serialised value at position i. The bytes must not be changed.
func (d *Document) At(i int) (key string, raw []byte) {
	d.compact()
	return d.entries[i].key, d.entries[i].raw
}

// Get returns the serialised value of key. The bytes must not be changed.
func (d *Document) Get(key string) (raw []byte, ok bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.entries[i].raw, true
}

// Set changes the value of key in its place, or adds it at the end. raw is one serialised value
// without references, as Marshal returns it. The document keeps raw. The errors are ErrKey,
// ErrSyntax, ErrLimit and ErrReferences; after an error nothing was changed.
func (d *Document) Set(key string, raw []byte) error {
	if err := CheckKey(d.handler, key); err != nil {
		return err
	}
	s, err := wholeIn(raw, d.depth())
	if err != nil {
		return err
	}
	e := entry{key, raw, s.info()}
	i, ok := d.index[key]
	switch {
	case ok && bytes.Equal(d.entries[i].raw, raw):
		return nil
	case len(s.refs) > 0:
		return fmt.Errorf("%w: the new value of %q", ErrReferences, key)
	case !ok && len(d.index) == MaxKeys:
		return tooManyKeys()
	case !ok:
		d.add(e)
		return nil
	case d.entries[i].raw[0] == 'R':
		// The variable is a PHP reference to another variable, so both have the same value.
		return fmt.Errorf("%w: key %q", ErrReferences, key)
	}
	if err := d.mayChange(i, s.slots); err != nil {
		return err
	}
	d.putEntry(i, e)
	return nil
}

// Delete removes key, if it exists. Its only error is ErrReferences.
func (d *Document) Delete(key string) error {
	i, ok := d.index[key]
	if !ok {
		return nil
	}
	if err := d.mayChange(i, 0); err != nil {
		return err
	}
	d.putEntry(i, entry{})
	delete(d.index, key)
	d.holes++
	return nil
}

// mayChange returns ErrReferences if a new value of entry i would break a reference. The new value
// has newSlots slots.
//
// A slot is a numbered value: PHP numbers all values of a session, including those inside arrays. A
// reference contains the number of an earlier slot. So a change of entry i can break only the
// references in later entries, and only in two cases:
//
//   - The reference points into entry i.
//   - The reference points to a slot after entry i, and that slot gets another number, because the
//     new value has more or fewer slots than the old value.
func (d *Document) mayChange(i, newSlots int) error {
	if !d.refs {
		return nil
	}
	old := &d.entries[i]
	errRefs := fmt.Errorf("%w: key %q", ErrReferences, old.key)
	from := 1 + d.depth() // in php_serialize the array itself is slot 1
	known := true         // false if the slots up to entry i cannot be counted
	for _, e := range d.entries[:i] {
		from += e.slots
		known = known && !e.opaque
	}
	known = known && !old.opaque
	to := from + old.slots
	for _, e := range d.entries[i+1:] {
		if e.opaque && (newSlots != old.slots || old.objects) {
			return errRefs // e may contain hidden references to objects in earlier entries
		}
		for _, ref := range e.refs {
			if !known || ref >= from && (ref < to || newSlots != old.slots) {
				return errRefs
			}
		}
	}
	return nil
}

// Encode returns the session as PHP stores it. The result is never nil.
func (d *Document) Encode() ([]byte, error) {
	b := []byte{}
	if d.handler == PHPSerialize {
		b = fmt.Appendf(b, "a:%d:{", len(d.index))
	}
	for i := range d.entries {
		e := &d.entries[i]
		if e.raw == nil {
			continue
		}
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
		return nil, tooLarge(len(b))
	}
	return b, nil
}

// hasControl reports whether key has control characters. In a session of PHP, such a key is the
// beginning of data that phpredis has compressed: adding a key would damage them.
func hasControl(key string) bool {
	return strings.ContainsFunc(key, func(c rune) bool { return c < ' ' })
}

// CheckKey returns ErrKey if sessions of this handler cannot hold key. With php and php_binary, PHP
// loses integer keys. With php, one key with a "|" makes PHP lose the whole session.
func CheckKey(h Handler, key string) error {
	switch {
	case h == PHPSerialize:
		return nil
	case key == "" || isInteger(key):
		return fmt.Errorf("%w: %q: %s drops empty and integer keys", ErrKey, key, h)
	case h == PHP && (strings.Contains(key, "|") || hasControl(key)):
		return fmt.Errorf("%w: %q: php cannot hold a key with | or control characters", ErrKey, key)
	case h == PHPBinary && len(key) > maxBinaryKey:
		return fmt.Errorf("%w: %d bytes, php_binary holds at most %d", ErrKey, len(key), maxBinaryKey)
	}
	return nil
}
