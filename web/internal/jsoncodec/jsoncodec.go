// Package jsoncodec has the default codec of packages session and stampede: encoding/json, which
// refuses the types of which JSON would keep nothing.
package jsoncodec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// Codec is the codec. It is safe for concurrent use.
type Codec struct{}

// Marshal encodes v, or refuses it as Check does.
func (Codec) Marshal(v any) ([]byte, error) {
	if err := Check(reflect.TypeOf(v)); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Unmarshal decodes data into the variable that v points to.
func (Codec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Check returns an error if t is a struct, or contains structs as its elements, all of whose fields
// encoding/json leaves out. t may be nil, and an interface type has nothing to check.
func Check(t reflect.Type) error {
	for seen := 0; t != nil && seen < 100; seen++ { // a type may be its own element
		if marshals(t) {
			return nil
		}
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			t = t.Elem()
			continue
		case reflect.Struct:
			if t.NumField() > 0 && !keeps(t) {
				return fmt.Errorf("JSON would keep nothing of a %v, because none of its fields is exported; export them, or give the type a method MarshalJSON and UnmarshalJSON", t)
			}
		}
		return nil
	}
	return nil
}

// keeps reports whether encoding/json encodes a field of the struct t.
func keeps(t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" {
			continue
		}
		if f.IsExported() {
			return true
		}
		if inner := f.Type; f.Anonymous {
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner != t && keeps(inner) {
				return true
			}
		}
	}
	return false
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}
