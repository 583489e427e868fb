package phpcodec

import (
	"math"
	"reflect"
	"strconv"
)

// An Array is PHP's ordered array. Unmarshal puts an Array into a variable of type any. Marshal
// writes the keys of an Array in their order.
type Array []Pair

// A Pair is an element of an Array.
type Pair struct {
	Key   any // an int64 or a string
	Value any
}

// Get returns the value at key, an integer or a string. As in PHP, "12" and 12 are the same key.
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

// An Object is a PHP object or enum that was not decoded. It can be kept and written back.
type Object struct {
	Class string // for an enum "Class:Case"
	Raw   []byte // the serialised object
}

// Raw is one serialised value. Marshal writes it unchanged.
type Raw []byte

// Incr adds delta to the serialised integer in old; nil counts as 0. It returns false if the value
// is no integer or if the sum does not fit 64 bits. PHP would make such a sum a float.
func Incr(old []byte, delta int64) ([]byte, bool) {
	var n int64
	if old != nil {
		s, err := wholeValue(old)
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
