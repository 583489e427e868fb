package phpcodec

import (
	"iter"
	"math"
	"reflect"
	"strconv"
)

// An Array is PHP's ordered array. Arrays become an Array when they are decoded into an any, and an
// Array keeps the order of its keys when it is written.
type Array []Pair

// A Pair is an element of an Array.
type Pair struct {
	Key   any // int64 or string
	Value any
}

// Get returns the value at key, an integer or a string, as PHP finds it: the
// text of an integer is that integer.
func (a Array) Get(key any) (any, bool) {
	want, err := keyText(reflect.ValueOf(key))
	if err != nil {
		return nil, false
	}
	for _, p := range a {
		if have, err := keyText(reflect.ValueOf(p.Key)); err == nil && have == want {
			return p.Value, true
		}
	}
	return nil, false
}

// All lists keys and values in order.
func (a Array) All() iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		for _, p := range a {
			if !yield(p.Key, p.Value) {
				return
			}
		}
	}
}

// List returns the values if the keys are 0, 1, 2, …
func (a Array) List() ([]any, bool) {
	values := make([]any, len(a))
	for i, p := range a {
		if p.Key != int64(i) {
			return nil, false
		}
		values[i] = p.Value
	}
	return values, true
}

// An Object is a PHP object or enum, unread: it can be kept and written back.
type Object struct {
	Class string // of an enum "Class:Case"
	Raw   []byte // serialised
}

// Raw is any serialised value, as it is.
type Raw []byte

// Incr adds delta to a serialised integer; nil counts as 0. It returns false if
// old is no integer or the sum leaves 64 bits, where PHP would make it a float.
func Incr(old []byte, delta int64) ([]byte, bool) {
	var n int64
	if old != nil {
		s, err := whole(old)
		if err != nil || old[0] != 'i' || s.slots != 1 {
			return nil, false
		}
		if n, err = strconv.ParseInt(string(old[2:len(old)-1]), 10, 64); err != nil {
			return nil, false
		}
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return nil, false
	}
	return appendInt(nil, n+delta), true
}
