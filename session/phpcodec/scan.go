package phpcodec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Limits of what is read.
const (
	MaxDepth = 128     // arrays and objects in each other
	MaxSize  = 4 << 20 // bytes of a session
	MaxKeys  = 1 << 16 // of a session; arrays in it are not limited
)

// What may be wrong with data; ask with errors.Is.
var (
	// ErrSyntax: it is not what PHP writes.
	ErrSyntax = errors.New("phpcodec: malformed data")
	// ErrReferences: it has back references, and what was asked for would
	// break or need them.
	ErrReferences = errors.New("phpcodec: value is bound up with others by references")
	// ErrIgbinary: it was written by the igbinary extension. Set
	// session.serialize_handler to php or php_serialize.
	ErrIgbinary = errors.New("phpcodec: data is in the igbinary format")
	// ErrKey: the format cannot hold such a key.
	ErrKey = errors.New("phpcodec: key cannot be stored in this format")
	// ErrType: the value does not fit the type, or the type has no
	// counterpart.
	ErrType = errors.New("phpcodec: type does not fit")
)

// scanner walks over serialised values without making them.
type scanner struct {
	data  []byte
	pos   int
	depth int

	slots  int   // values that references may count
	refs   []int // what references point to
	opaque bool  // a C: object, whose inside is its own affair
	double func(from, to int)
}

func (s *scanner) fail(what string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrSyntax, s.pos, what)
}

// value walks over one value.
func (s *scanner) value() error {
	if len(s.data)-s.pos < 2 {
		return s.fail("it ends in a value")
	}
	kind := s.data[s.pos]
	if kind != 'R' {
		s.slots++
	}
	if kind == 'N' {
		s.pos++
		return s.expect(";")
	}
	if s.data[s.pos+1] != ':' {
		return s.fail("no value begins so")
	}
	s.pos += 2
	switch kind {
	case 'b', 'i', 'd':
		return s.scalar(kind)
	case 's':
		_, err := s.quoted()
		if err != nil {
			return err
		}
		return s.expect(";")
	case 'a':
		return s.elements()
	case 'O', 'C', 'E':
		return s.object(kind)
	case 'R', 'r':
		return s.reference()
	}
	s.pos -= 2
	return s.fail("no value begins so")
}

func (s *scanner) expect(text string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(text)) {
		return s.fail("expected " + text)
	}
	s.pos += len(text)
	return nil
}

// maxScalar is more than any number needs, whatever serialize_precision is.
const maxScalar = 1100

// word returns what stands before a ";", which is consumed.
func (s *scanner) word() (string, error) {
	rest := s.data[s.pos:min(len(s.data), s.pos+maxScalar)]
	n := bytes.IndexByte(rest, ';')
	if n < 0 {
		return "", s.fail("a number without an end")
	}
	s.pos += n + 1
	return string(rest[:n]), nil
}

func (s *scanner) scalar(kind byte) error {
	from := s.pos
	word, err := s.word()
	if err != nil {
		return err
	}
	ok := false
	switch kind {
	case 'b':
		ok = word == "0" || word == "1"
	case 'i':
		_, ok = parseInt(word)
	case 'd':
		_, ok = parseFloat(word)
		if ok && s.double != nil {
			s.double(from, s.pos-1)
		}
	}
	if !ok {
		s.pos = from
		return s.fail("not a number")
	}
	return nil
}

func parseInt(word string) (int64, bool) {
	n, err := strconv.ParseInt(word, 10, 64)
	return n, err == nil && word[0] != '+'
}

// length reads a decimal number up to end. Nothing that is counted can be more
// than the bytes that are left.
func (s *scanner) length(end byte) (int, error) {
	n, from := 0, s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c == end && s.pos > from {
			s.pos++
			return n, nil
		}
		if c < '0' || c > '9' {
			break
		}
		if n = n*10 + int(c-'0'); n > len(s.data) {
			return 0, s.fail("a length beyond the end")
		}
		s.pos++
	}
	return 0, s.fail("expected a length")
}

// quoted reads length, colon and string.
func (s *scanner) quoted() ([]byte, error) {
	n, err := s.length(':')
	if err != nil {
		return nil, err
	}
	if n > len(s.data)-s.pos-2 {
		return nil, s.fail("a string beyond the end")
	}
	if err := s.expect(`"`); err != nil {
		return nil, err
	}
	text := s.data[s.pos : s.pos+n]
	s.pos += n
	return text, s.expect(`"`)
}

// minElement is the shortest that an element of an array can be: i:0;N;
const minElement = 6

// count reads the number of elements and checks that there is room for them.
func (s *scanner) count() (int, error) {
	n, err := s.length(':')
	if err == nil && n > (len(s.data)-s.pos)/minElement {
		err = s.fail("more elements than bytes")
	}
	return n, err
}

func (s *scanner) elements() error {
	n, err := s.count()
	if err != nil {
		return err
	}
	if err := s.expect("{"); err != nil {
		return err
	}
	if s.depth++; s.depth > MaxDepth {
		return s.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	for range n {
		if _, err := s.key(); err != nil {
			return err
		}
		if err := s.value(); err != nil {
			return err
		}
	}
	s.depth--
	return s.expect("}")
}

// key reads the key of an element and returns it as text.
func (s *scanner) key() (string, error) {
	switch {
	case bytes.HasPrefix(s.data[s.pos:], []byte("i:")):
		s.pos += 2
		word, err := s.word()
		if err != nil {
			return "", err
		}
		if n, ok := parseInt(word); !ok || strconv.FormatInt(n, 10) != word {
			return "", s.fail("not an integer key")
		}
		return word, nil
	case bytes.HasPrefix(s.data[s.pos:], []byte("s:")):
		s.pos += 2
		text, err := s.quoted()
		if err != nil {
			return "", err
		}
		return string(text), s.expect(";")
	}
	return "", s.fail("expected a key")
}

func (s *scanner) object(kind byte) error {
	name, err := s.quoted()
	switch {
	case err != nil:
		return err
	case len(name) == 0:
		return s.fail("a class without a name")
	case kind == 'E':
		if !bytes.Contains(name, []byte(":")) {
			return s.fail("an enum without a case")
		}
		return s.expect(";")
	}
	if err := s.expect(":"); err != nil {
		return err
	}
	if kind == 'O' {
		return s.elements()
	}
	s.opaque = true
	n, err := s.length(':')
	if err != nil {
		return err
	}
	if n > len(s.data)-s.pos-2 {
		return s.fail("an object beyond the end")
	}
	if err := s.expect("{"); err != nil {
		return err
	}
	s.pos += n
	return s.expect("}")
}

func (s *scanner) reference() error {
	n, err := s.length(';')
	if err == nil && n == 0 {
		err = s.fail("a reference to nothing")
	}
	s.refs = append(s.refs, n)
	return err
}

// whole checks that data is one value.
func whole(data []byte) (*scanner, error) {
	s := &scanner{data: data}
	if err := s.value(); err != nil {
		return nil, err
	}
	if s.pos != len(data) {
		return nil, s.fail("something follows the value")
	}
	return s, nil
}
