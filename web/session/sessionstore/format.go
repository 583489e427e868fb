package sessionstore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/web/internal/ordered"
)

// A Format stores a session as one value, for a BlobStore.
type Format interface {
	// Parse reads a session. Its time and memory are bounded by the length of data. Parts that it
	// does not understand are kept as they are.
	Parse(data []byte) (Document, error)
	// New returns a session without fields. deadline is the end of its absolute lifetime; the zero
	// time means that it has none.
	New(deadline time.Time) Document
	// Same reports whether two encoded values mean the same.
	Same(a, b []byte) bool
	// Add adds delta to an encoded integer; nil counts as 0. If old is no integer, the error is
	// ErrNotNumber.
	Add(old []byte, delta int64) ([]byte, error)
}

// A Document is a parsed session. It is not for concurrent use.
type Document interface {
	// Fields lists the fields in their order.
	Fields() []Field
	// Get returns the value of one field.
	Get(key string) (value []byte, ok bool)
	// Set changes a field, or adds it at the end.
	Set(key string, value []byte) error
	// Delete removes a field, if it is there.
	Delete(key string) error
	// Deadline returns the end of the session's absolute lifetime. It returns the zero time if
	// there is none, or if the format cannot keep it.
	Deadline() time.Time
	// Encode returns the session as one value.
	Encode() ([]byte, error)
}

// Packed is the format of sessions that only padlock reads: an ordered list of keys and values,
// each with its length before it.
func Packed() Format { return packed{} }

type packed struct{}

// packedMagic is the beginning of every packed session. Its last byte is the number of the format.
// A later version of padlock that writes another format changes only this byte.
const packedMagic = "PLS\x01"

var errPacked = fmt.Errorf("%w: it is damaged", ErrRefused)

// otherFormat returns the error for data that begin with neither packedMagic nor TombstonePrefix.
func otherFormat(data []byte) error {
	const name = len(packedMagic) - 1
	if len(data) > name && data[name] > packedMagic[name] && (string(data[:name]) == packedMagic[:name] || string(data[:name]) == TombstonePrefix[:name]) {
		return fmt.Errorf("%w: a newer padlock wrote it, in format %d; this one reads format %d", ErrRefused, data[name], packedMagic[name])
	}
	return fmt.Errorf("%w: it begins otherwise", errPacked)
}

// isPadlocks reports whether data begin as every packed session and every tombstone does, of this
// version of padlock or a newer one.
func isPadlocks(data []byte) bool {
	const name = len(packedMagic) - 1
	return len(data) >= name && (string(data[:name]) == packedMagic[:name] || string(data[:name]) == TombstonePrefix[:name])
}

func (packed) New(deadline time.Time) Document { return &packedDoc{deadline: deadline} }

func (packed) Same(a, b []byte) bool { return slices.Equal(a, b) }

func (packed) Add(old []byte, delta int64) ([]byte, error) { return addDecimal(old, delta) }

func (packed) Parse(data []byte) (Document, error) {
	if len(data) < len(packedMagic) || string(data[:len(packedMagic)]) != packedMagic {
		return nil, otherFormat(data)
	}
	p := unpacker{rest: data[len(packedMagic):]}
	d := &packedDoc{}
	if ms := p.number(); ms != 0 {
		d.deadline = time.UnixMilli(int64(ms))
	}
	for len(p.rest) > 0 && !p.bad {
		key, value := string(p.bytes()), p.bytes()
		if d.fields.Has(key) {
			p.bad = true
		}
		d.fields.Set(key, value)
	}
	if p.bad {
		return nil, errPacked
	}
	return d, nil
}

// unpacker reads numbers and byte strings. After the first malformed number or string, it returns
// only zeros and empty strings.
type unpacker struct {
	rest []byte
	bad  bool
}

func (p *unpacker) number() uint64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *unpacker) bytes() []byte {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

type packedDoc struct {
	deadline time.Time
	fields   ordered.Map[[]byte]
}

func (d *packedDoc) Fields() []Field {
	fields := make([]Field, 0, d.fields.Len())
	for key, value := range d.fields.All() {
		fields = append(fields, Field{key, value})
	}
	return fields
}

func (d *packedDoc) Deadline() time.Time { return d.deadline }

func (d *packedDoc) Get(key string) ([]byte, bool) { return d.fields.Get(key) }

func (d *packedDoc) Set(key string, value []byte) error {
	d.fields.Set(key, value)
	return nil
}

func (d *packedDoc) Delete(key string) error {
	d.fields.Delete(key)
	return nil
}

func (d *packedDoc) Encode() ([]byte, error) {
	b := []byte(packedMagic)
	var ms int64
	if !d.deadline.IsZero() {
		ms = d.deadline.UnixMilli()
	}
	b = binary.AppendUvarint(b, uint64(ms))
	for key, value := range d.fields.All() {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, value...)
	}
	return b, nil
}
