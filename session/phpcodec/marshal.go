package phpcodec

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Marshal serialises v: nil, booleans, integers, floats, strings and []byte as
// themselves; slices as lists; maps as arrays with sorted keys; structs as
// arrays by the names of their exported fields, or what a tag says
// (`php:"name,omitempty"`, "-" leaves a field out); Array in its order; Object
// and Raw as they are; encoding.TextMarshaler as a string; pointers as what
// they point to. ErrType for everything else.
func Marshal(v any) ([]byte, error) { return marshal(nil, reflect.ValueOf(v), 0) }

func marshal(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrType, MaxDepth)
	}
	if !v.IsValid() {
		return append(b, "N;"...), nil
	}
	if own, done, err := marshalOwn(b, v, depth); done {
		return own, err
	}
	switch {
	case v.CanInt():
		return appendInt(b, v.Int()), nil
	case v.CanUint():
		if v.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("%w: %d is more than PHP's integers hold", ErrType, v.Uint())
		}
		return appendInt(b, int64(v.Uint())), nil
	case v.CanFloat():
		return append(appendFloat(append(b, "d:"...), v.Float()), ';'), nil
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, "b:1;"...), nil
		}
		return append(b, "b:0;"...), nil
	case reflect.String:
		return appendString(b, v.String()), nil
	case reflect.Pointer, reflect.Interface:
		return marshal(b, v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return marshalList(b, v, depth)
	case reflect.Map:
		return marshalMap(b, v, depth)
	case reflect.Struct:
		return marshalStruct(b, v, depth)
	}
	return nil, fmt.Errorf("%w: %s", ErrType, v.Type())
}

// marshalOwn serialises types with a meaning of their own.
func marshalOwn(b []byte, v reflect.Value, depth int) (out []byte, done bool, err error) {
	if !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false, nil
	}
	switch x := v.Interface().(type) {
	case Object:
		return appendRaw(b, x.Raw)
	case Raw:
		return appendRaw(b, x)
	case []byte:
		return appendString(b, string(x)), true, nil
	case Array:
		b = fmt.Appendf(b, "a:%d:{", len(x))
		for _, p := range x {
			b = appendKey(b, fmt.Sprint(p.Key))
			if b, err = marshal(b, reflect.ValueOf(p.Value), depth+1); err != nil {
				return nil, true, err
			}
		}
		return append(b, '}'), true, nil
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		return appendString(b, string(text)), true, err
	}
	return nil, false, nil
}

func appendRaw(b, raw []byte) ([]byte, bool, error) {
	s, err := whole(raw)
	if err == nil && len(s.refs) > 0 {
		err = ErrReferences
	}
	return append(b, raw...), true, err
}

func marshalList(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
		return appendString(b, string(v.Bytes())), nil
	}
	b = fmt.Appendf(b, "a:%d:{", v.Len())
	for i := range v.Len() {
		var err error
		if b, err = marshal(appendInt(b, int64(i)), v.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func marshalMap(b []byte, v reflect.Value, depth int) ([]byte, error) {
	keys := v.MapKeys()
	if k := v.Type().Key().Kind(); k != reflect.String && !(k >= reflect.Int && k <= reflect.Uint64) {
		return nil, fmt.Errorf("%w: keys of %s", ErrType, v.Type())
	}
	slices.SortFunc(keys, func(x, y reflect.Value) int {
		if x.CanInt() {
			return cmp.Compare(x.Int(), y.Int())
		}
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
	})
	b = fmt.Appendf(b, "a:%d:{", len(keys))
	for _, k := range keys {
		var err error
		if b, err = marshal(appendKey(b, fmt.Sprint(k)), v.MapIndex(k), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func marshalStruct(b []byte, v reflect.Value, depth int) ([]byte, error) {
	var body []byte
	n := 0
	for _, f := range fieldsOf(v.Type()) {
		x := v.Field(f.index)
		if f.omitEmpty && x.IsZero() {
			continue
		}
		var err error
		if body, err = marshal(appendKey(body, f.name), x, depth+1); err != nil {
			return nil, err
		}
		n++
	}
	b = fmt.Appendf(b, "a:%d:{", n)
	return append(append(b, body...), '}'), nil
}

type structField struct {
	name      string
	index     int
	omitEmpty bool
}

func fieldsOf(t reflect.Type) []structField {
	var fields []structField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("php"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields = append(fields, structField{name, i, options == "omitempty"})
	}
	return fields
}
