package supervise

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// The process that holds the lock (the front) and the supervisor run the same program, so they
// always know the same messages. A message consists of its length in four bytes and its fields, one
// after the other. A number is written as a varint. A text is written as its length and its bytes,
// and a list as the number of its items and the items.
//
// The messages are not JSON, because the supervisor starts before Go has initialised encoding/json.
// Package early explains this.

// This interface has two implementations: one writes the fields of a message, and the other one
// reads them. So each type of message lists its fields only once, for both directions.
type fields interface {
	number(n *int64)
	text(s *string)
	damaged() bool // the message that is read has an error
}

func integer(f fields, i *int) {
	n := int64(*i)
	f.number(&n)
	*i = int(n)
}

func yesNo(f fields, b *bool) {
	n := 0
	if *b {
		n = 1
	}
	integer(f, &n)
	*b = n != 0
}

func duration(f fields, d *time.Duration) { f.number((*int64)(d)) }

// pointerField is for a pointer in a message. It writes or reads whether the pointer is nil, and
// returns true if it is not. The caller must then write or read the value. When the message is
// read, pointerField allocates the value.
func pointerField[T any](f fields, value **T) bool {
	has := *value != nil
	yesNo(f, &has)
	if has && *value == nil {
		*value = new(T)
	}
	return has
}

// list reads or writes the number of the items, and then each item.
func list[T any](f fields, items *[]T, item func(*T)) {
	n := len(*items)
	integer(f, &n)
	for i := 0; i < n && !f.damaged(); i++ {
		if i == len(*items) {
			*items = append(*items, *new(T))
		}
		item(&(*items)[i])
	}
}

// message is an order or news.
type message interface{ fields(f fields) }

const (
	head       = 4       // bytes of the length
	maxMessage = 1 << 30 // bytes of a message; a command's arguments, the longest part, are shorter on every system
)

var errMessage = errors.New("a message between padlock's processes is damaged")

// writeMessage sends a message in one piece.
func writeMessage(out io.Writer, m message) error {
	w := &writer{make([]byte, head)}
	m.fields(w)
	binary.BigEndian.PutUint32(w.b, uint32(len(w.b)-head))
	_, err := out.Write(w.b)
	return err
}

// readMessage receives a message into m, which must be empty.
func readMessage(in io.Reader, m message) error {
	var length [head]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxMessage {
		return errMessage
	}
	r := &reader{b: make([]byte, n)}
	if _, err := io.ReadFull(in, r.b); err != nil {
		return err
	}
	return r.message(m)
}

// writer appends fields to a message.
type writer struct{ b []byte }

func (w *writer) damaged() bool { return false }

func (w *writer) number(n *int64) { w.b = binary.AppendVarint(w.b, *n) }

func (w *writer) text(s *string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(*s)))
	w.b = append(w.b, *s...)
}

// reader takes fields from a message.
type reader struct {
	b   []byte
	err error
}

// message reads all fields of m. If there are bytes after the fields, the message is damaged.
func (r *reader) message(m message) error {
	m.fields(r)
	if r.err == nil && len(r.b) > 0 {
		r.err = errMessage
	}
	return r.err
}

func (r *reader) damaged() bool { return r.err != nil }

func (r *reader) number(n *int64) {
	v, size := binary.Varint(r.b)
	*n = v
	r.skip(size)
}

func (r *reader) text(s *string) {
	length, size := binary.Uvarint(r.b)
	r.skip(size)
	if length > uint64(len(r.b)) {
		r.err, r.b = errMessage, nil
		return
	}
	*s, r.b = string(r.b[:length]), r.b[length:]
}

// skip drops the bytes of a number that was just decoded. If the size is 0 or negative, the bytes
// were not a valid number, and the message is damaged.
func (r *reader) skip(size int) {
	if size <= 0 {
		r.err, r.b = errMessage, nil
		return
	}
	r.b = r.b[size:]
}
