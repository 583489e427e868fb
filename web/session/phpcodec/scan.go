package phpcodec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Limits for reading and writing. Beyond them the error is ErrLimit.
const (
	MaxDepth = 4096    // nesting of arrays and objects, as in PHP (unserialize_max_depth)
	MaxSize  = 4 << 20 // bytes in a session
	MaxKeys  = 1 << 16 // keys in a session; elements of arrays are not limited
)

// Errors of Parse, Marshal and Unmarshal. Check for them with errors.Is.
var (
	// ErrSyntax: PHP does not write such data.
	ErrSyntax = errors.New("phpcodec: malformed data")
	// ErrLimit: the data are larger, deeper or have more keys than this package reads. PHP may have
	// written them. errors.Is finds ErrSyntax in this error, too.
	ErrLimit = errors.New("phpcodec: data is beyond a limit")
	// ErrReferences: the value has back references, and the operation would break them or would
	// have to follow them.
	ErrReferences = errors.New("phpcodec: value is bound up with others by references")
	// ErrIgbinary: the igbinary extension wrote the data. Set session.serialize_handler to php or
	// php_serialize.
	ErrIgbinary = errors.New("phpcodec: data is in the igbinary format")
	// ErrKey: the format cannot hold this key.
	ErrKey = errors.New("phpcodec: key cannot be stored in this format")
	// ErrType: the value does not fit the type, or the type has no counterpart in PHP.
	ErrType = errors.New("phpcodec: type does not fit")
)

// limitError names the limit that was exceeded.
type limitError string

func (e limitError) Is(target error) bool { return target == ErrLimit || target == ErrSyntax }
func (e limitError) Error() string        { return ErrLimit.Error() + ": " + string(e) }

func tooLarge(n int) error {
	return limitError(fmt.Sprintf("%d bytes, at most %d are read", n, MaxSize))
}

func tooManyKeys() error { return limitError(fmt.Sprintf("more than %d keys", MaxKeys)) }

// scanner walks over serialised values without decoding them.
type scanner struct {
	data  []byte
	pos   int
	depth int // number of arrays around the value

	slots   int   // number of slots: values that a reference can point to
	refs    []int // targets of the references
	opaque  bool  // an object written as C:…, whose content only its class can read
	objects bool  // an object of any kind
	double  func(from, to int)
}

// info returns what the scanner has found so far.
func (s *scanner) info() spanInfo { return spanInfo{s.slots, s.refs, s.opaque, s.objects} }

func (s *scanner) fail(what string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrSyntax, s.pos, what)
}

// value walks over one value. It is not recursive, so each level of nesting costs only eight bytes.
func (s *scanner) value() error {
	var left []int // for each open array: how many elements are still to come
	for {
		n, err := s.readItem()
		if err != nil {
			return err
		}
		if n >= 0 {
			left = append(left, n)
			if s.depth+len(left) > MaxDepth {
				return limitError(fmt.Sprintf("nested deeper than %d at byte %d", MaxDepth, s.pos))
			}
		}
		for len(left) > 0 && left[len(left)-1] == 0 {
			if err := s.expect("}"); err != nil {
				return err
			}
			left = left[:len(left)-1]
		}
		if len(left) == 0 {
			return nil
		}
		left[len(left)-1]--
		if _, err := s.key(); err != nil {
			return err
		}
	}
}

// leaf is what readItem returns for a value that cannot have elements.
const leaf = -1

// readItem reads one value. If the value can have elements, readItem reads only its beginning, up
// to the {, and returns the number of elements. Otherwise it returns leaf.
func (s *scanner) readItem() (elements int, err error) {
	if len(s.data)-s.pos < 2 {
		return leaf, s.fail("it ends in a value")
	}
	kind := s.data[s.pos]
	if kind != 'R' {
		s.slots++
	}
	if kind == 'N' {
		s.pos++
		return leaf, s.expect(";")
	}
	if s.data[s.pos+1] != ':' {
		return leaf, s.fail("no value begins so")
	}
	s.pos += 2
	switch kind {
	case 'b', 'i', 'd':
		return leaf, s.scalar(kind)
	case 's':
		if _, err := s.quoted(); err != nil {
			return leaf, err
		}
		return leaf, s.expect(";")
	case 'a':
		return s.head()
	case 'O', 'C', 'E':
		s.objects = true
		return s.object(kind)
	case 'R', 'r':
		return leaf, s.reference()
	}
	s.pos -= 2
	return leaf, s.fail("no value begins so")
}

func (s *scanner) expect(text string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(text)) {
		return s.fail("expected " + text)
	}
	s.pos += len(text)
	return nil
}

// maxScalar is longer than the text of any number, whatever serialize_precision is.
const maxScalar = 1100

// word returns the text up to the next ";" and consumes both.
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

// length reads a decimal number and the byte endByte behind it. The number must not be larger than
// the length of the data.
func (s *scanner) length(endByte byte) (int, error) { return s.number(endByte, len(s.data)) }

// number reads a decimal number and the byte endByte behind it. The number must not be larger than
// limit.
func (s *scanner) number(endByte byte, limit int) (int, error) {
	n, from := 0, s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c == endByte && s.pos > from {
			s.pos++
			return n, nil
		}
		if c < '0' || c > '9' {
			break
		}
		if n = n*10 + int(c-'0'); n > limit {
			return 0, s.fail("a length beyond the end")
		}
		s.pos++
	}
	return 0, s.fail("expected a length")
}

// quoted reads a length, a colon and a string.
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

// minElement is the minimum length of an array's element: i:0;N;
const minElement = 6

// count reads the number of elements and checks that enough bytes are left for them.
func (s *scanner) count() (int, error) {
	n, err := s.length(':')
	if err == nil && n > (len(s.data)-s.pos)/minElement {
		err = s.fail("more elements than bytes")
	}
	return n, err
}

// head reads the number of elements and the {.
func (s *scanner) head() (int, error) {
	n, err := s.count()
	if err == nil {
		err = s.expect("{")
	}
	return n, err
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

func (s *scanner) object(kind byte) (elements int, err error) {
	name, err := s.quoted()
	switch {
	case err != nil:
		return leaf, err
	case len(name) == 0:
		return leaf, s.fail("a class without a name")
	case kind == 'E':
		if !bytes.Contains(name, []byte(":")) {
			return leaf, s.fail("an enum without a case")
		}
		return leaf, s.expect(";")
	}
	if err := s.expect(":"); err != nil {
		return leaf, err
	}
	if kind == 'O' {
		return s.head()
	}
	s.opaque = true
	n, err := s.length(':')
	if err != nil {
		return leaf, err
	}
	if n > len(s.data)-s.pos-2 {
		return leaf, s.fail("an object beyond the end")
	}
	if err := s.expect("{"); err != nil {
		return leaf, err
	}
	s.pos += n
	return leaf, s.expect("}")
}

func (s *scanner) reference() error {
	n, err := s.number(';', MaxSize) // the target may be outside of the data
	if err == nil && n == 0 {
		err = s.fail("a reference to nothing")
	}
	s.refs = append(s.refs, n)
	return err
}

// wholeValue checks that data is one value.
func wholeValue(data []byte) (*scanner, error) { return wholeIn(data, 0) }

// wholeIn is like wholeValue, for a value inside of nested arrays. depth is the number of these
// arrays.
func wholeIn(data []byte, depth int) (*scanner, error) {
	s := &scanner{data: data, depth: depth}
	if err := s.value(); err != nil {
		return nil, err
	}
	if s.pos != len(data) {
		return nil, s.fail("something follows the value")
	}
	return s, nil
}
